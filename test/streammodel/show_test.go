package streammodel_test

import (
	"fmt"
	"strings"
	"time"
)

// GoString shows a plan in the report of a failure.
func (p plan) GoString() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{client streams %v, server streams %v, forced codec %v\n", p.clientStreams, p.serverStreams, p.forcedCodec)
	fmt.Fprintf(&b, "  attempts %d, idempotency %d, attempt timeout %v, backoff %v, tokens %d, replay limit %d (of all: %v)\n",
		p.maxAttempts, p.level, p.attemptTimeout, p.backoff, p.tokens, p.limit, p.ofAll)
	fmt.Fprintf(&b, "  deadline %v, cancel %v, drain %v\n", p.deadline, p.cancel, p.drain)
	for i, ops := range p.threads {
		fmt.Fprintf(&b, "  thread %d:", i+1)
		for _, o := range ops {
			fmt.Fprintf(&b, " %v", o)
		}
		b.WriteByte('\n')
	}
	for i, s := range p.scripts {
		fmt.Fprintf(&b, "  script %d:", i+1)
		for _, a := range s.acts {
			fmt.Fprintf(&b, " %v", a)
		}
		if s.hang {
			b.WriteString(" hang\n")
			continue
		}
		fmt.Fprintf(&b, " %v pushback %q\n", s.code, s.pushback)
	}
	b.WriteByte('}')
	return b.String()
}

// String shows a step.
func (o op) String() string {
	name := [...]string{"send", "close", "receive", "header", "trailer", "context"}[o.verb]
	if o.verb == doSend {
		name = fmt.Sprintf("send(%d)", o.size)
	}
	if o.pause > 0 {
		return fmt.Sprintf("%v,%s", o.pause, name)
	}
	return name
}

// String shows an act.
func (a act) String() string {
	switch a.deed {
	case actReceive:
		return fmt.Sprintf("receive(%d)", a.n)
	case actReceiveAll:
		return "receiveAll"
	case actHeader:
		return "header"
	case actSend:
		return fmt.Sprintf("send(%d×%d)", a.n, a.size)
	default:
		return fmt.Sprintf("wait(%v)", time.Duration(a.n)*unit)
	}
}
