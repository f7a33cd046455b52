package streammodel_test

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"

	"github.com/retrybudget/retrybudget"
)

// A plan is all that is random about a run.
//
// Times are chosen so that no two things that end an attempt fall on the same
// instant, where either would be right: pauses and waits are whole units,
// attempt timeouts a microsecond more, the backoff a tenth of a millisecond
// more, the caller's cancel and deadline half a unit or so.
type plan struct {
	clientStreams, serverStreams bool
	forcedCodec                  bool // given as a call option

	maxAttempts    int
	level          retrybudget.Idempotency
	attemptTimeout time.Duration // 0 for none
	backoff        time.Duration
	tokens         int  // in the budget
	limit          int  // of bytes kept for replay
	ofAll          bool // the limit is that of all streams together, not the call's

	// large makes all messages so large that flow control holds up whoever
	// sends four before the other side reads.
	large bool

	deadline time.Duration // of the call
	cancel   time.Duration // when the caller cancels, 0 for never

	// threads are the goroutines of the application: one that does everything,
	// or a sender and a receiver. The last one receives.
	threads [][]op
	drain   bool // receive to the end; otherwise cancel

	scripts []script // of the attempts, the last one for all that follow
}

// unit is what time is counted in.
const unit = 10 * time.Millisecond

// verb is what the application does in one step.
type verb int

const (
	doSend verb = iota
	doClose
	doReceive
	doHeader
	doTrailer
	doContext
)

// op is one step of the application.
type op struct {
	verb  verb
	size  int           // of the message, beside its name
	pause time.Duration // before it; 1 ns lets all else come to rest
}

// script is what the server does in one attempt.
type script struct {
	acts []act
	hang bool // never answers
	code codes.Code
	// pushback is the value of grpc-retry-pushback-ms, if not empty.
	pushback string
}

type deed int

const (
	actReceive deed = iota
	actReceiveAll
	actHeader
	actSend
	actWait
)

type act struct {
	deed deed
	n    int // messages, or units of time
	size int
}

// mostly returns a generator of usual in three of four draws, and of one of the
// others in the fourth.
func mostly[T any](usual T, others ...T) *rapid.Generator[T] {
	list := slices.Repeat([]T{usual}, 3*len(others))
	return rapid.SampledFrom(append(list, others...))
}

// drawPlan draws one. The first values of a list are drawn most often, and
// failures shrink towards them.
func drawPlan(t *rapid.T) plan {
	p := plan{
		clientStreams:  rapid.Bool().Draw(t, "client streams"),
		serverStreams:  rapid.Bool().Draw(t, "server streams"),
		forcedCodec:    mostly(false, true).Draw(t, "codec"),
		maxAttempts:    mostly(3, 1, 2, 4, 5).Draw(t, "max attempts"),
		level:          rapid.SampledFrom([]retrybudget.Idempotency{retrybudget.Idempotent, retrybudget.IdempotencyUnknown}).Draw(t, "idempotency"),
		attemptTimeout: drawTimeout(t),
		backoff:        rapid.SampledFrom([]time.Duration{0, unit/100 + 2*unit, 100 * time.Microsecond}).Draw(t, "backoff"),
		tokens:         mostly(20, 20, 1, 0).Draw(t, "tokens"),
		limit:          mostly(256<<10, 40_000, 1000, 0).Draw(t, "limit"),
		ofAll:          rapid.Bool().Draw(t, "limit of all"),
		deadline:       mostly(100*unit, 10*unit, 3*unit, 0).Draw(t, "deadline") + unit*7/10,
		drain:          mostly(true, false).Draw(t, "drain"),
		large:          mostly(false, true).Draw(t, "large"),
	}
	if rapid.IntRange(0, 9).Draw(t, "non-idempotent") == 9 {
		p.level = retrybudget.NonIdempotent
	}
	if rapid.IntRange(0, 7).Draw(t, "cancel") == 7 {
		p.cancel = time.Duration(rapid.IntRange(0, 8).Draw(t, "when"))*unit + unit/2
	}
	p.threads = drawThreads(t, p.clientStreams)
	for n := rapid.SampledFrom([]int{2, 3, 1, 4}).Draw(t, "scripts"); n > 0; n-- {
		p.scripts = append(p.scripts, drawScript(t, n == 1, p.serverStreams))
	}
	if p.large {
		p.enlarge()
		if p.clientStreams && p.serverStreams && rapid.Bool().Draw(t, "clinch") {
			p.clinch()
		}
	}
	return p
}

func drawTimeout(t *rapid.T) time.Duration {
	n := rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "attempt timeout")
	if n == 0 {
		return 0
	}
	return time.Duration(n)*unit + time.Microsecond
}

// drawThreads draws what the application does. One that may send only once does
// so first, as generated code.
func drawThreads(t *rapid.T, clientStreams bool) [][]op {
	receiving := []verb{doReceive, doReceive, doReceive, doReceive, doHeader, doTrailer, doContext}
	if !clientStreams {
		once := []op{drawOp(t, []verb{doSend}), drawOp(t, []verb{doClose})}
		return [][]op{append(once, drawOps(t, receiving)...)}
	}
	sending := []verb{doSend, doSend, doSend, doSend, doSend, doSend, doContext, doHeader, doClose}
	threads := [][]op{nil}
	if rapid.Bool().Draw(t, "two goroutines") {
		threads = [][]op{drawOps(t, sending), drawOps(t, receiving)}
	} else {
		threads[0] = drawOps(t, slices.Concat(sending, sending, receiving))
	}
	if rapid.IntRange(0, 3).Draw(t, "half-close") < 3 {
		threads[0] = append(threads[0], drawOp(t, []verb{doClose}))
	}
	return threads
}

func drawOps(t *rapid.T, verbs []verb) []op {
	var ops []op
	for range rapid.SampledFrom([]int{4, 2, 6, 0, 8, 1}).Draw(t, "ops") {
		ops = append(ops, drawOp(t, verbs))
	}
	return ops
}

func drawOp(t *rapid.T, verbs []verb) op {
	o := op{
		verb:  rapid.SampledFrom(verbs).Draw(t, "verb"),
		pause: rapid.SampledFrom([]time.Duration{0, 0, 0, 1, 1, unit, 3 * unit}).Draw(t, "pause"),
	}
	if o.verb == doSend {
		o.size = drawSize(t)
	}
	return o
}

// largeSize is more than a quarter of what gRPC takes of a stream before the other
// side reads.
const largeSize = 60_000

// drawSize draws the size of a message.
func drawSize(t *rapid.T) int {
	return rapid.SampledFrom([]int{0, 0, 10, 1000, 30_000}).Draw(t, "size")
}

// What attempts do and end with that are to be followed by others, and the last.
var (
	failingDeeds = []deed{actReceive, actWait, actHeader, actReceive, actWait, actHeader, actReceiveAll, actSend}
	endingDeeds  = []deed{actReceive, actSend, actWait, actSend, actReceiveAll, actHeader}
	failing      = []codes.Code{
		codes.Unavailable, codes.Unavailable, codes.Unavailable, codes.Unavailable, codes.Unavailable, codes.Unavailable,
		codes.Unavailable, codes.Unavailable, codes.Unavailable,
		codes.Aborted, codes.DeadlineExceeded, codes.ResourceExhausted, codes.NotFound, codes.OK,
	}
	ending = []codes.Code{codes.OK, codes.OK, codes.OK, codes.Unavailable, codes.NotFound, codes.Canceled}
)

// drawScript draws what the server does in one attempt.
func drawScript(t *rapid.T, last, serverStreams bool) script {
	var s script
	deeds, list := failingDeeds, failing
	if last {
		deeds, list = endingDeeds, ending
	}
	for range rapid.SampledFrom([]int{1, 2, 3, 0, 4, 5}).Draw(t, "acts") {
		a := act{deed: rapid.SampledFrom(deeds).Draw(t, "deed")}
		a.n = rapid.IntRange(1, 3).Draw(t, "n")
		if a.deed == actSend {
			a.size = drawSize(t)
		}
		s.acts = append(s.acts, a)
	}
	s.hang = rapid.IntRange(0, 19).Draw(t, "hang") == 19
	s.code = rapid.SampledFrom(list).Draw(t, "code")
	if s.code == codes.OK && !serverStreams && rapid.IntRange(0, 3).Draw(t, "answer") < 3 {
		s.acts = append(s.acts, act{deed: actSend, n: 1})
	}
	s.pushback = mostly("", "", "", "0", "30", "-1", "soon").Draw(t, "pushback")
	return s
}

// enlarge makes all messages large.
func (p *plan) enlarge() {
	for _, ops := range p.threads {
		for i := range ops {
			ops[i].size = largeSize
		}
	}
	for _, s := range p.scripts {
		for i := range s.acts {
			s.acts[i].size = largeSize
		}
	}
}

// clinch makes the replay one that the server does not read before its answers
// are received. Four messages fit into the usual limit, a fifth would commit.
func (p *plan) clinch() {
	sends := slices.Repeat([]op{{verb: doSend, size: largeSize}}, 4)
	isSend := func(o op) bool { return o.verb == doSend }
	p.threads[0] = append(sends, slices.DeleteFunc(p.threads[0], isSend)...)
	p.scripts = []script{
		{acts: []act{{deed: actReceive, n: 4}}, code: codes.Unavailable},
		{acts: []act{{deed: actSend, n: 4, size: largeSize}, {deed: actReceiveAll}}, code: codes.OK},
	}
}
