package streammodel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// attemptHeader is gRFC A6's: how many attempts there were before.
const attemptHeader = "grpc-previous-rpc-attempts"

// An attempt is what the server knows of one. mu of its world guards it.
type attempt struct {
	number int
	script script
	ctx    context.Context //nolint:containedctx // looked at when the run is judged
	start  time.Duration   // since the start of the run

	received  []string
	halfClose bool // seen
	sent      []string
	header    bool

	receiving bool // in RecvMsg
	over      bool // the handler returned
	finished  bool // by its script; otherwise it was cut
	end       time.Duration
}

// errCut ends a handler whose client is gone.
var errCut = errors.New("cut")

// handle is the handler of every attempt.
func (w *world) handle(_ any, stream grpc.ServerStream) error {
	a := w.arrive(stream)
	err := w.follow(a, stream)
	w.mu.Lock()
	defer w.mu.Unlock()
	a.over, a.end, a.finished = true, w.now(), !errors.Is(err, errCut)
	w.note("attempt %d ends: %v", a.number, err)
	if err == errCut {
		return status.FromContextError(stream.Context().Err()).Err()
	}
	return err
}

// arrive notes an attempt.
func (w *world) arrive(stream grpc.ServerStream) *attempt {
	md, _ := metadata.FromIncomingContext(stream.Context())
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &attempt{number: 1, ctx: stream.Context(), start: w.now()}
	if values := md.Get(attemptHeader); len(values) > 0 {
		n, err := strconv.Atoi(values[0])
		if len(values) > 1 || err != nil || n < 1 {
			w.fail("the attempt header is %q", values)
		}
		a.number = n + 1
	}
	if n := len(w.attempts); n > 0 && a.number != w.attempts[n-1].number+1 {
		w.fail("attempt %d follows attempt %d", a.number, w.attempts[n-1].number)
	}
	a.script = w.plan.scripts[min(a.number, len(w.plan.scripts))-1]
	w.attempts = append(w.attempts, a)
	w.note("attempt %d arrives", a.number)
	return a
}

// follow does what the script says.
func (w *world) follow(a *attempt, stream grpc.ServerStream) error {
	mark := metadata.Pairs("attempt", strconv.Itoa(a.number))
	stream.SetTrailer(mark)
	for _, act := range a.script.acts {
		var err error
		switch act.deed {
		case actReceive:
			err = w.receive(a, stream, act.n)
		case actReceiveAll:
			err = w.receive(a, stream, 1<<20)
		case actHeader:
			err = w.sendHeader(a, stream, mark)
		case actSend:
			err = w.send(a, stream, act)
		case actWait:
			select {
			case <-time.After(time.Duration(act.n) * unit):
			case <-stream.Context().Done():
				err = errCut
			}
		}
		if err != nil {
			return err
		}
	}
	if a.script.hang {
		<-stream.Context().Done()
		return errCut
	}
	if a.script.pushback != "" {
		stream.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", a.script.pushback))
	}
	return status.Error(a.script.code, scriptedMessage(a.number))
}

// scriptedMessage is the message of the status that an attempt's script ends
// with.
func scriptedMessage(attempt int) string { return fmt.Sprintf("end of attempt %d", attempt) }

// receive takes up to n messages, fewer when the client sends no more.
func (w *world) receive(a *attempt, stream grpc.ServerStream, n int) error {
	for range n {
		w.mu.Lock()
		if a.halfClose {
			w.mu.Unlock()
			return nil
		}
		a.receiving = true
		w.mu.Unlock()

		var m wrapperspb.BytesValue
		err := stream.RecvMsg(&m)

		w.mu.Lock()
		a.receiving = false
		switch {
		case err == nil:
			a.received = append(a.received, string(m.GetValue()))
			w.note("attempt %d receives %s", a.number, brief(m.GetValue()))
		case errors.Is(err, io.EOF):
			a.halfClose = true
			w.note("attempt %d sees the half-close", a.number)
		default:
			err = errCut
		}
		w.mu.Unlock()
		if errors.Is(err, errCut) {
			return errCut
		}
	}
	return nil
}

func (w *world) sendHeader(a *attempt, stream grpc.ServerStream, md metadata.MD) error {
	w.mu.Lock()
	again := a.header || len(a.sent) > 0
	a.header = true
	w.note("attempt %d sends headers", a.number)
	w.mu.Unlock()
	if again {
		return nil
	}
	if err := stream.SendHeader(md); err != nil {
		return errCut
	}
	return nil
}

// send sends messages that name the attempt and themselves; no more than one in
// all where the client may receive only one.
func (w *world) send(a *attempt, stream grpc.ServerStream, act act) error {
	for range act.n {
		w.mu.Lock()
		i := len(a.sent)
		if i > 0 && !w.plan.serverStreams {
			w.mu.Unlock()
			return nil
		}
		text := message(fmt.Sprintf("reply %d of attempt %d", i, a.number), act.size)
		a.sent = append(a.sent, string(text))
		w.note("attempt %d sends %s", a.number, brief(text))
		w.mu.Unlock()
		if err := stream.SendMsg(wrapperspb.Bytes(text)); err != nil {
			return errCut
		}
	}
	return nil
}

// code is the status that an attempt which finished has ended with.
func (w *world) code(a *attempt) codes.Code {
	if a.script.code == codes.OK && !w.plan.serverStreams && len(a.sent) == 0 {
		return codes.Internal // what grpc-go makes of a missing answer
	}
	return a.script.code
}

// message makes a message of a name and padding.
func message(name string, size int) []byte {
	return append([]byte(name+":"), bytes.Repeat([]byte{'.'}, size)...)
}

// brief is the name of a message and its length.
func brief(m []byte) string {
	name, padding, _ := bytes.Cut(m, []byte(":"))
	return fmt.Sprintf("%q (+%d)", name, len(padding))
}
