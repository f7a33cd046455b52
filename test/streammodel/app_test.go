package streammodel_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An app is what the application knows of its stream. mu of the world guards it.
type app struct {
	opened   bool
	sends    []string // begun
	sent     int      // returned nil
	sendErr  error
	closed   bool // CloseSend returned
	got      []string
	final    error       // what RecvMsg ended with
	header   metadata.MD // what Header returned before the end
	late     bool        // Header was called before the end and returned headers after it
	inside   []*stay     // the calls of the stream that have not returned
	finished []error     // what OnFinish was called with
	trailer  metadata.MD // of Trailer, at the end
	targets  struct{ header, trailer metadata.MD }
	left     bool          // it cancelled instead of receiving to the end
	isGone   bool          // its context ended
	gone     time.Duration // then
}

// A stay is a call of the stream that has not returned.
type stay struct {
	verb  verb
	since time.Duration
}

// enter notes that a call begins; mu is held. The result is to be passed to
// leave.
func (a *app) enter(v verb, now time.Duration) *stay {
	s := &stay{v, now}
	a.inside = append(a.inside, s)
	return s
}

// leave notes that the call has returned; mu is held.
func (a *app) leave(s *stay) {
	a.inside = slices.DeleteFunc(a.inside, func(other *stay) bool { return other == s })
}

// in reports whether a goroutine of the application is in one of the calls, and
// since when; mu is held.
func (a *app) in(verbs ...verb) (since time.Duration, yes bool) {
	for _, s := range a.inside {
		if slices.Contains(verbs, s.verb) && (!yes || s.since < since) {
			since, yes = s.since, true
		}
	}
	return since, yes
}

// call makes the stream, and returns when the application is done with it and
// its context has ended.
func (w *world) call(ctx context.Context) {
	ctx, stop := context.WithDeadline(ctx, w.began.Add(w.plan.deadline))
	defer stop()
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.app.isGone, w.app.gone = true, w.now()
		w.note("the context ends: %v", ctx.Err())
	})
	if w.plan.cancel > 0 {
		timer := time.AfterFunc(w.plan.cancel, stop)
		defer timer.Stop()
	}
	opts := []grpc.CallOption{
		grpc.Header(&w.app.targets.header), grpc.Trailer(&w.app.targets.trailer),
		grpc.OnFinish(func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.app.finished = append(w.app.finished, err)
		}),
	}
	if w.plan.forcedCodec {
		opts = append(opts, grpc.ForceCodecV2(codec{encoding.GetCodecV2(proto.Name)}))
	}
	ctx = context.WithValue(ctx, contextKey{}, w)
	desc := &grpc.StreamDesc{ClientStreams: w.plan.clientStreams, ServerStreams: w.plan.serverStreams}
	cs, err := w.cc.NewStream(ctx, desc, method, opts...)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.app.final = err
		return
	}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { w.watch(done) })
	w.use(ctx, cs)
	if !w.plan.drain {
		w.mu.Lock()
		w.app.left = true
		w.mu.Unlock()
		stop()
	}
	rest()
	close(done)
	watching.Wait()
	w.atEnd(cs)
}

// codec is the standard one under a type of its own, so that nobody recognises
// it.
type codec struct{ std encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error)      { return c.std.Marshal(v) }
func (c codec) Unmarshal(data mem.BufferSlice, v any) error { return c.std.Unmarshal(data, v) }
func (codec) Name() string                                  { return proto.Name }

// use runs the application's goroutines to their end.
func (w *world) use(ctx context.Context, cs grpc.ClientStream) {
	w.mu.Lock()
	w.app.opened = true
	w.note("the stream is open")
	w.mu.Unlock()
	var threads sync.WaitGroup
	for i, ops := range w.plan.threads {
		threads.Go(func() {
			for _, o := range ops {
				if o.pause > 0 {
					<-time.After(o.pause)
				}
				w.do(ctx, cs, o)
			}
			if i == len(w.plan.threads)-1 && w.plan.drain {
				for w.receiveNext(cs) {
				}
			}
		})
	}
	threads.Wait()
}

func (w *world) do(ctx context.Context, cs grpc.ClientStream, o op) {
	switch o.verb {
	case doSend:
		w.sendNext(cs, o.size)
	case doClose:
		w.closeSend(cs)
	case doReceive:
		w.receiveNext(cs)
	case doHeader:
		w.getHeader(cs)
	case doTrailer:
		md := cs.Trailer()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.app.final == nil && len(w.ended) == 0 && md != nil {
			w.fail("trailer before the end: %v", md)
		}
	case doContext:
		if cs.Context().Value(contextKey{}) != ctx.Value(contextKey{}) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.fail("the stream's context does not descend from the call's")
		}
	}
}

type contextKey struct{}

// sendNext sends a message out of a buffer that is overwritten as soon as it may
// be. An application that was told that the stream is broken sends no more.
func (w *world) sendNext(cs grpc.ClientStream, size int) {
	w.mu.Lock()
	if w.app.sendErr != nil || w.app.closed || !w.plan.clientStreams && len(w.app.sends) > 0 {
		w.mu.Unlock()
		return
	}
	text := message(fmt.Sprintf("request %d", len(w.app.sends)), size)
	w.app.sends = append(w.app.sends, string(text))
	in := w.app.enter(doSend, w.now())
	w.note("the application sends %s", brief(text))
	w.mu.Unlock()

	err := cs.SendMsg(wrapperspb.Bytes(text))
	for i := range text {
		text[i] = '!'
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.app.leave(in)
	if err != nil {
		w.app.sendErr = err
		w.note("SendMsg: %v", err)
		return
	}
	w.app.sent++
}

func (w *world) closeSend(cs grpc.ClientStream) {
	w.mu.Lock()
	in := w.app.enter(doClose, w.now())
	w.mu.Unlock()

	err := cs.CloseSend()

	w.mu.Lock()
	defer w.mu.Unlock()
	w.app.leave(in)
	w.app.closed = true
	w.note("the application half-closes: %v", err)
	if err != nil {
		w.fail("CloseSend: %v", err)
	}
}

// receiveNext receives a message, and reports whether there may be more.
func (w *world) receiveNext(cs grpc.ClientStream) bool {
	w.mu.Lock()
	in := w.app.enter(doReceive, w.now())
	w.mu.Unlock()

	var m wrapperspb.BytesValue
	err := cs.RecvMsg(&m)

	w.mu.Lock()
	defer w.mu.Unlock()
	w.app.leave(in)
	first := w.app.final == nil
	if err == nil {
		w.app.got = append(w.app.got, string(m.GetValue()))
		w.note("the application receives %s", brief(m.GetValue()))
		if !first {
			w.fail("a message after the end, %v", w.app.final)
		}
		return true
	}
	if first {
		w.app.final = err
		w.note("RecvMsg: %v", err)
	} else if err != w.app.final {
		w.fail("RecvMsg ends with %v, then with %v", w.app.final, err)
	}
	return false
}

func (w *world) getHeader(cs grpc.ClientStream) {
	w.mu.Lock()
	in := w.app.enter(doHeader, w.now())
	early := len(w.ended) == 0
	w.mu.Unlock()

	md, err := cs.Header()

	w.mu.Lock()
	defer w.mu.Unlock()
	w.app.leave(in)
	w.note("Header: %v, %v", md, err)
	if err != nil {
		w.fail("Header: %v", err)
	}
	switch {
	case !early || md == nil:
	case len(w.ended) > 0:
		w.app.late = true
	case w.app.header == nil:
		w.app.header = md
	}
}

// atEnd looks at the stream once more, before the context ends.
func (w *world) atEnd(cs grpc.ClientStream) {
	trailer := cs.Trailer()
	held := w.r.ReplayBytes()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.app.trailer = trailer
	if held != 0 {
		w.fail("%d bytes are kept for replay after the end", held)
	}
	for _, a := range w.attempts {
		if !a.over {
			w.fail("attempt %d is still alive after the end", a.number)
		}
	}
}
