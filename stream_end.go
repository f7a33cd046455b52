package retrybudget

import (
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// end ends a call that is committed to a, after err (nil for a complete answer,
// io.EOF for OK), unless it has ended already. It returns what the application
// gets.
func (s *clientStream) end(a *streamAttempt, err error) error {
	s.token <- struct{}{}
	defer s.release()
	_, done := s.state()
	switch {
	case done && err != nil:
		return s.final
	case done:
		return nil
	case err == nil || isEOF(err):
		s.finishOK(a)
		return err
	default:
		return s.failed(a, err)
	}
}

// finishOK ends the call with OK. The caller holds the token.
func (s *clientStream) finishOK(a *streamAttempt) {
	if _, done := s.state(); done {
		return
	}
	defer s.endIfPanicking(a)
	s.t.succeeded()
	s.finish(a, io.EOF)
}

// endIfPanicking ends a call that should have been ended, but a function of the
// application's panics. The panic goes on. The caller holds the token.
func (s *clientStream) endIfPanicking(a *streamAttempt) {
	if _, done := s.state(); !done {
		s.t.settle(Failed)
		s.finish(a, errPanicked)
	}
}

// errPanicked is what is left of a call after a panic.
var errPanicked = status.Error(codes.Internal, "retrybudget: an interceptor or a function of the application panicked")

// finish is the end of the call: final is what RecvMsg gives from now on. a is
// the last attempt, which may have no stream. The caller holds the token.
func (s *clientStream) finish(a *streamAttempt, final error) {
	s.mu.Lock()
	if s.current != nil {
		s.current.decideLocked()
	}
	s.current, s.ended, s.final = a, true, final
	s.freeLocked()
	s.chosen.Store(nil)
	s.mu.Unlock()
	s.abandon(a)
	s.copyTargets(a)
	if s.t.cancel != nil {
		s.t.cancel()
	}
	err := final
	if isEOF(err) {
		err = nil
	}
	finish(s.opts, err)
}

// isEOF reports whether err is the clean end of a stream: io.EOF itself. An error
// that wraps it is a failure.
func isEOF(err error) bool {
	return err == io.EOF //nolint:errorlint // see above
}

// copyTargets gives the caller's grpc.Header, grpc.Trailer and grpc.Peer what
// the last attempt, which is over, got. A stream that grpc-go has not written
// them for is asked.
func (s *clientStream) copyTargets(a *streamAttempt) {
	if a.cs == nil {
		return
	}
	s.mu.Lock()
	written := a.finished
	s.mu.Unlock()
	for _, o := range s.opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			var header metadata.MD
			if written {
				header = a.header
			} else {
				header, _ = a.cs.Header()
			}
			if o.HeaderAddr != nil {
				*o.HeaderAddr = header
			}
		case grpc.TrailerCallOption:
			var trailer metadata.MD
			if written {
				trailer = a.trailer
			} else if s.mayReadTrailer(a) {
				trailer = a.cs.Trailer()
			}
			if o.TrailerAddr != nil {
				*o.TrailerAddr = trailer
			}
		case grpc.PeerCallOption:
			from := &a.peer // read below, once it is known to be written
			if !written {
				from, _ = peer.FromContext(a.cs.Context())
			}
			if o.PeerAddr != nil && from != nil {
				*o.PeerAddr = *from
			}
		}
	}
}
