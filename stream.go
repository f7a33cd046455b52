package retrybudget

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// stream returns the interceptor for streams. native says that grpc-go's own
// retries may be on.
func (r *Retrier) stream(native bool) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		found := scan(opts, r)
		if found.marked {
			return streamer(ctx, desc, cc, method, opts...)
		}
		c := call{r: r, cc: cc, method: method, ctx: ctx, native: native}
		c.key, c.set = r.lookUp(cc, method)
		if err := c.begin(found, opts); err != nil {
			if found.onFinish {
				finish(opts, err)
			}
			return nil, err
		}
		c.off = c.disabled()
		s := &clientStream{
			t: retries{call: c}, ctx: c.ctx, desc: desc, streamer: streamer, opts: opts,
			codec: codecOf(opts), room: r.replayRoom(c.set.cfg, opts), single: c.off, token: make(chan struct{}, 1),
		}
		if err := s.start(); err != nil {
			return nil, err
		}
		return s, nil
	}
}

// clientStream is a stream that is retried by replay until it is committed.
//
// Two goroutines of the application use it at a time, one that sends and one
// that receives. What may be done to an attempt before commit is ordered by the
// token: whoever holds it may receive from the current attempt, ask for its
// headers, replace it, and use t. The sender needs it only when its attempt
// turns out to be broken. mu guards plain state and is never held while anything
// else is called. After commit, reading and writing go straight to the chosen
// attempt.
type clientStream struct {
	t        retries         // used by the holder of the token
	ctx      context.Context //nolint:containedctx // the call's, as t.ctx, readable without the token
	desc     *grpc.StreamDesc
	streamer grpc.Streamer
	opts     []grpc.CallOption
	codec    codec
	room     replayRoom
	single   bool // retries were off when it began, so nothing is kept

	// scratch is where the sender encodes small messages, but for its first.
	scratch   []byte
	firstSent bool

	token  chan struct{}
	chosen atomic.Pointer[streamAttempt] // set while committed and not ended
	// delivered: the application got a message.
	delivered atomic.Bool

	mu         sync.Mutex
	current    *streamAttempt
	sent       sentLog // for replay, until commit
	halfClosed bool    // the application called CloseSend
	committed  bool    // nothing is retried any more
	ended      bool
	final      error // what RecvMsg gives at the end, io.EOF after OK

	// pending is a message that was there when a broken send looked for the
	// status; it outlives the end of the call.
	pending *emptypb.Empty
}

var _ grpc.ClientStream = (*clientStream)(nil)

// start opens the first attempt, and further ones until one opens.
func (s *clientStream) start() error {
	s.token <- struct{}{}
	defer s.release()
	a, err := s.open()
	if err != nil {
		a, err = s.reopen(a, attemptEnd{err: err, timeout: s.timeoutOf(a)})
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.current = a
	if s.single && a.timeout == 0 {
		s.commitLocked(a) // nothing to keep, and no timeout that a commit would lift
	}
	s.mu.Unlock()
	return nil
}

// release gives the token back, and ends the call if that became necessary
// meanwhile.
func (s *clientStream) release() {
	<-s.token
	s.reap()
}

// failed decides what follows the failure err of attempt a and does it: the next
// attempt is opened and gets what the application sent so far, or the call ends.
// It returns the error that the call ended with. The caller holds the token.
func (s *clientStream) failed(a *streamAttempt, err error) error {
	end := attemptEnd{err: err, timeout: s.timeoutOf(a), delivered: s.delivered.Load()}
	end.committed = s.abandon(a)
	s.mu.Lock()
	broken, stray := a.broken, a.stray != nil
	s.mu.Unlock()
	switch {
	case broken != nil:
		end.err = broken
	case !stray && s.mayReadTrailer(a):
		end.trailer = a.cs.Trailer()
	}
	next, final := s.reopen(a, end)
	if final != nil {
		return final
	}
	s.replaceBy(next, s.t.history.last(0).Err)
	return nil
}

// reopen lets end decide about another attempt until one opens or the call ends,
// and returns the attempt or the error.
func (s *clientStream) reopen(a *streamAttempt, end attemptEnd) (*streamAttempt, error) {
	opened := false
	defer func() {
		if !opened {
			s.endIfPanicking(a)
		}
	}()
	for {
		again, err := s.t.next(&end)
		if !again {
			s.finish(a, err)
			return nil, err
		}
		if a, err = s.open(); err == nil {
			opened = true
			return a, nil
		}
		end = attemptEnd{err: err, timeout: s.timeoutOf(a)}
	}
}

// timeoutOf returns the timeout of a if that ended it, else 0.
func (s *clientStream) timeoutOf(a *streamAttempt) (ended time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.timedOut {
		return a.timeout
	}
	return 0
}
