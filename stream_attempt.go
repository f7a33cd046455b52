package retrybudget

import (
	"context"
	"errors"
	"reflect"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// streamAttempt is one attempt of a stream. Fields that mu of its stream guards
// say so; the others do not change after the attempt was opened.
type streamAttempt struct {
	ctx     attemptContext // of a retry
	cs      grpc.ClientStream
	cancel  context.CancelCauseFunc
	timeout time.Duration // the attempt's own, 0 for none
	timer   *time.Timer   // enforces it until commit
	// ready is closed when the replay of what the application had sent before
	// this attempt is over; nil when there was nothing to replay.
	ready chan struct{}
	// replayed: the replay is over, the half-close included; guarded by mu.
	replayed bool
	// over is closed when it is known what becomes of the attempt: replaced,
	// committed, or the end of the call.
	over      chan struct{}
	decided   bool        // over is closed; guarded by mu
	abandoned bool        // another attempt takes its place; guarded by mu
	timedOut  bool        // timeout ended it; guarded by mu
	unwatch   func() bool // stops watching the caller's context; guarded by mu
	finished  bool        // grpc-go is done with it and has written the targets; guarded by mu
	asked     bool        // Header was called; guarded by mu
	stray     error       // grpc-go ended it outside any call of ours; guarded by mu
	broken    error       // what really ended it, where that was not the server; guarded by mu

	// Where grpc-go writes what grpc.Header, grpc.Trailer and grpc.Peer ask
	// for. The caller's own targets get the last attempt's at the end.
	header  metadata.MD
	trailer metadata.MD
	peer    peer.Peer
}

// errAttemptTimeout is the cause of an attempt context that its timeout ended.
var errAttemptTimeout = errors.New("retrybudget: attempt timeout")

// errAbandoned is the cause of an attempt context whose attempt is over.
var errAbandoned = errors.New("retrybudget: attempt is over")

// open makes the attempt under way. On error, the attempt returned has no
// stream. Whoever holds the token calls it.
func (s *clientStream) open() (a *streamAttempt, err error) {
	a = &streamAttempt{over: make(chan struct{}), timeout: s.t.attemptTimeout()}
	s.t.startClock(s.t.key.latency.sample())
	ctx, cancel := context.WithCancelCause(s.t.attemptContext(&a.ctx))
	a.cancel = cancel
	panicked := true
	defer func() {
		switch {
		case panicked: // in an interceptor further in; the panic goes on
			s.t.settle(Failed)
			s.finish(a, errPanicked)
		case err != nil:
			s.abandon(a)
		}
	}()
	if a.timeout > 0 {
		a.timer = time.AfterFunc(a.timeout, func() { s.attemptTimedOut(a) })
	}
	a.cs, err = s.streamer(ctx, s.desc, s.t.cc, s.t.method, s.attemptOptions(a)...)
	panicked = false
	return a, err
}

// attemptOptions returns the options that an attempt carries: the caller's, with
// targets and OnFinish replaced by the attempt's own.
func (s *clientStream) attemptOptions(a *streamAttempt) []grpc.CallOption {
	pass := passOn(make([]grpc.CallOption, 0, len(s.opts)+2), s.opts)
	for i, o := range pass {
		switch o.(type) {
		case grpc.HeaderCallOption:
			pass[i] = grpc.Header(&a.header)
		case grpc.TrailerCallOption:
			pass[i] = grpc.Trailer(&a.trailer)
		case grpc.PeerCallOption:
			pass[i] = grpc.Peer(&a.peer)
		}
	}
	return append(pass, s.t.r.mark, grpc.OnFinish(func(err error) { s.attemptFinished(a, err) }))
}

// attemptTimedOut cancels an attempt whose time is up, unless it was committed
// first: a stream that lives is never killed by it.
func (s *clientStream) attemptTimedOut(a *streamAttempt) {
	s.mu.Lock()
	late := a.decided || a.abandoned
	a.timedOut = !late
	s.mu.Unlock()
	if !late {
		a.cancel(errAttemptTimeout)
	}
}

// abandon ends an attempt at once, so that its handler on the server ends too.
// It reports whether the call was committed to it.
func (s *clientStream) abandon(a *streamAttempt) (committed bool) {
	s.mu.Lock()
	a.abandoned = true
	committed = s.committed
	unwatch := a.unwatch
	s.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.cancel(errAbandoned)
	return committed
}

// mayReadTrailer reports whether the trailer of an attempt that ended can be read
// without a race against grpc-go. It can once grpc-go is done with the attempt,
// which is when RecvMsg gives the status, or a Header of ours in another
// goroutine was first to see it. An interceptor further in that ends a stream by
// itself leaves grpc-go's alive a little longer.
func (s *clientStream) mayReadTrailer(a *streamAttempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.finished || a.asked || s.t.cc == nil {
		return true
	}
	t := reflect.TypeOf(a.cs)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == grpcPackage
}

// grpcPackage is where grpc-go's own streams are from.
const grpcPackage = "google.golang.org/grpc"

// breakOff ends an attempt because of err, which did not come from the server. A
// receiver that waits for the server comes back then.
func (s *clientStream) breakOff(a *streamAttempt, err error) {
	s.mu.Lock()
	if a.broken == nil {
		a.broken = err
	}
	s.mu.Unlock()
	a.cancel(err)
}

// attemptFinished is each attempt's OnFinish. When grpc-go ends the stream
// because the caller's context ended or the connection closed, the application
// may never call again, so this is where the call ends. When it fails otherwise,
// RecvMsg is to find out; should the application give up the call instead,
// grpc-go does not notice any more, and the context is watched here.
func (s *clientStream) attemptFinished(a *streamAttempt, err error) {
	stray := err != nil && (s.ctx.Err() != nil || isClosing(statusOf(err)))
	s.mu.Lock()
	a.finished = true
	if err != nil && !stray && !a.abandoned && !s.ended {
		a.unwatch = context.AfterFunc(s.ctx, func() {
			s.strayed(a, status.FromContextError(s.ctx.Err()).Err())
		})
	}
	s.mu.Unlock()
	if stray {
		s.strayed(a, err)
	}
}

// strayed says that a ended outside any call of ours.
func (s *clientStream) strayed(a *streamAttempt, err error) {
	s.mu.Lock()
	a.stray = err
	s.mu.Unlock()
	s.reap()
}

// reap ends the call when its attempt ended outside any call of ours. While
// somebody holds the token, that is left to them: they see the end themselves,
// or come here on release.
func (s *clientStream) reap() {
	for {
		s.mu.Lock()
		a := s.current
		stray := a != nil && a.stray != nil && !s.ended
		s.mu.Unlock()
		if !stray {
			return
		}
		select {
		case s.token <- struct{}{}:
		default:
			return
		}
		if !s.isOver(a) {
			_ = s.failed(a, a.stray) // RecvMsg gives it, should the application still ask
		}
		<-s.token
	}
}

// isOver reports whether a is no longer the attempt that the call is about.
func (s *clientStream) isOver(a *streamAttempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.current != a
}

// decideLocked says that it is known what becomes of a. mu is held.
func (a *streamAttempt) decideLocked() {
	if !a.decided {
		a.decided = true
		close(a.over)
	}
}

// waitReady waits until the replay is over, so that what the application sends
// comes after it. The replay of an attempt that is given up is soon over too.
func (a *streamAttempt) waitReady() {
	if a.ready != nil {
		<-a.ready
	}
}
