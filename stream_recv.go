package retrybudget

import (
	"context"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// RecvMsg receives the next message, retrying the stream while none was
// delivered.
func (s *clientStream) RecvMsg(m any) error {
	if a := s.chosen.Load(); a != nil && s.delivered.Load() {
		err := a.cs.RecvMsg(m)
		if err == nil && s.desc.ServerStreams {
			return nil
		}
		return s.end(a, err)
	}
	if _, done := s.state(); done {
		return s.afterEnd(m)
	}
	s.token <- struct{}{}
	defer s.release()
	for {
		a, done := s.state()
		if done {
			return s.afterEnd(m)
		}
		if message := s.takePending(); message != nil {
			return s.deliverPending(a, message, m)
		}
		err := a.cs.RecvMsg(m)
		if err == nil {
			if s.deliver(a) || !s.desc.ServerStreams {
				if !s.desc.ServerStreams { // a whole answer, so it counts even if the timeout came first
					s.finishOK(a)
				}
				return nil
			}
			err = s.drain(a) // its timeout was first, and the rest of the stream is lost
		}
		if isEOF(err) {
			s.finishOK(a)
			return io.EOF
		}
		if err := s.failed(a, err); err != nil {
			return err
		}
		resetReply(m)
	}
}

// state returns the current attempt and whether the call has ended.
func (s *clientStream) state() (*streamAttempt, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.ended
}

// deliver commits the call to a, which has a message for the application. It
// reports false if the attempt's timeout came first. The caller holds the token.
func (s *clientStream) deliver(a *streamAttempt) bool {
	s.mu.Lock()
	ok := s.commitLocked(a)
	s.mu.Unlock()
	if ok && !s.delivered.Swap(true) {
		s.t.answered()
	}
	return ok
}

// takePending returns the message that a broken send came across, once.
func (s *clientStream) takePending() *emptypb.Empty {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.pending
	s.pending = nil
	return m
}

// deliverPending gives the application the pending message. The caller holds the
// token.
func (s *clientStream) deliverPending(a *streamAttempt, pending *emptypb.Empty, m any) error {
	if err := s.decodePending(pending, m); err != nil {
		s.breakOff(a, err)
		return s.failed(a, err)
	}
	s.deliver(a)
	return nil
}

func (s *clientStream) decodePending(pending *emptypb.Empty, m any) error {
	bytes := pending.ProtoReflect().GetUnknown()
	if err := s.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes)}, m); err != nil {
		return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return nil
}

// afterEnd is RecvMsg after the end of the call: the answer of an upload may
// still be pending, then the final status is repeated.
func (s *clientStream) afterEnd(m any) error {
	if pending := s.takePending(); pending != nil {
		return s.decodePending(pending, m)
	}
	return s.final
}

// commitLocked ends all retrying: what was kept is freed, the attempt's timeout
// is lifted. It reports false when the attempt was given up before, by its
// timeout or for another. mu is held.
func (s *clientStream) commitLocked(a *streamAttempt) bool {
	if a.timedOut || a.abandoned || s.ended {
		return false
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	s.committed = true
	s.freeLocked()
	a.decideLocked()
	s.chosen.Store(a)
	return true
}

func (s *clientStream) freeLocked() {
	s.t.r.replayed.Add(-int64(s.sent.size))
	s.sent = sentLog{}
}

// Header returns the response headers, which commits the call, or nil when the
// stream ended without any. It does not wait for RecvMsg: another goroutine may
// be in it for a message that the server sends later.
func (s *clientStream) Header() (metadata.MD, error) {
	for {
		if a := s.chosen.Load(); a != nil {
			return s.headerOf(a)
		}
		a, done := s.state()
		if done {
			return a.headers()
		}
		s.mu.Lock()
		a.asked = true
		s.mu.Unlock()
		md, err := a.cs.Header()
		if err != nil {
			s.breakOff(a, err)
		} else if md != nil && s.commitTo(a) {
			return md, nil
		}
		s.resolve(a, err)
	}
}

// headerOf returns the headers of the attempt that the call is committed to.
// Without any the stream has ended, and so does the call.
func (s *clientStream) headerOf(a *streamAttempt) (metadata.MD, error) {
	md, err := a.cs.Header()
	switch {
	case err != nil:
		s.breakOff(a, err)
		return nil, s.end(a, err)
	case md == nil:
		s.endWithoutMessage(a)
	}
	return md, nil
}

// endWithoutMessage ends the call after a stream that had not even headers.
func (s *clientStream) endWithoutMessage(a *streamAttempt) {
	s.token <- struct{}{}
	defer s.release()
	if _, done := s.state(); done {
		return
	}
	switch err := a.cs.RecvMsg(&emptypb.Empty{}); {
	case isEOF(err):
		s.finishOK(a)
	case err != nil:
		_ = s.failed(a, err) // RecvMsg gives it
	}
}

// headers returns what came of them, at the end of a call.
func (a *streamAttempt) headers() (metadata.MD, error) {
	if a == nil || a.cs == nil {
		return nil, nil
	}
	return a.cs.Header()
}

// Trailer returns the trailer metadata after the end of the stream, and nil
// before.
func (s *clientStream) Trailer() metadata.MD {
	if a, done := s.state(); done && a != nil && a.cs != nil {
		return a.cs.Trailer()
	}
	return nil
}

// Context returns the call's context before commit, the chosen attempt's after
// it.
func (s *clientStream) Context() context.Context {
	s.mu.Lock()
	a, settled := s.current, s.committed || s.ended
	s.mu.Unlock()
	if settled && a != nil && a.cs != nil {
		return a.cs.Context()
	}
	return s.ctx
}
