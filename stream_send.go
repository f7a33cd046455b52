package retrybudget

import (
	"context"
	"io"
	"runtime/debug"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// SendMsg sends a message, and keeps it for replay while the call is not
// committed. It returns io.EOF when the stream has ended; RecvMsg says how.
func (s *clientStream) SendMsg(m any) error {
	err := s.send(m)
	if isEOF(err) && !s.desc.ClientStreams {
		return nil // as grpc-go: generated code expects the status from RecvMsg
	}
	return err
}

func (s *clientStream) send(m any) error {
	if a := s.chosen.Load(); a != nil {
		return s.sendChosen(a, m)
	}
	var kept sentMessage
	var canKeep bool
	if !s.single {
		if s.firstSent && s.scratch == nil {
			s.scratch = newScratch()
		}
		kept, canKeep = s.codec.encode(m, s.scratch)
		s.firstSent = true
	}
	for again := false; ; again = true {
		a, done := s.state()
		if done {
			return io.EOF
		}
		if again && canKeep { // an interceptor further in may have changed m
			if fresh, err := s.codec.decode(kept.kind, kept.frame[frameHead:]); err == nil {
				m = fresh
			}
		}
		if s.chosen.Load() == a {
			return s.sendChosen(a, m)
		}
		a.waitReady()
		err := a.cs.SendMsg(m)
		if err == nil {
			if s.keep(a, kept, canKeep) {
				return nil
			}
			err = io.EOF // the attempt was given up; if there is another, it gets the message
		}
		if !isEOF(err) {
			s.breakOff(a, err)
		}
		if s.resolve(a, err); !s.isReplaced(a) {
			return s.sendError(err)
		}
	}
}

func (s *clientStream) sendChosen(a *streamAttempt, m any) error {
	a.waitReady()
	err := a.cs.SendMsg(m)
	if err != nil && !isEOF(err) {
		s.breakOff(a, err)
		return s.end(a, err)
	}
	return err
}

// sendError returns what SendMsg gives for err once no attempt follows: io.EOF
// if the server or the network ended the stream, an error of its own otherwise.
func (s *clientStream) sendError(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isEOF(err) && s.ended && !isEOF(s.final) {
		return s.final
	}
	return err
}

// keep remembers a message that was sent on a, or commits the call to a when
// there is no room for it or no way to. It reports false when a was given up in
// the meantime.
func (s *clientStream) keep(a *streamAttempt, m sentMessage, can bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return true
	case a.abandoned || a.timedOut || s.current != a:
		return false
	case s.committed || s.single:
		return true
	case can && s.sent.add(m, s.room):
		return true
	default:
		return s.commitLocked(a)
	}
}

// resolve returns once it is known what becomes of a, which turned out to be
// broken: err is io.EOF, nil, or an error of our own side.
//
// Only the status of a, which RecvMsg gives, says whether it can be retried. If
// the application is receiving, that decides; otherwise it is received here. A
// call that is not retried then never is: SendMsg gives io.EOF, the application
// stops sending, and a later attempt would get half of what it meant to send.
func (s *clientStream) resolve(a *streamAttempt, err error) {
	select {
	case <-a.over:
		return
	case s.token <- struct{}{}:
	}
	defer s.release()
	s.mu.Lock()
	decided := a.decided
	s.mu.Unlock()
	if decided {
		return
	}
	if err == nil || isEOF(err) {
		err = s.recvStatus(a)
	}
	switch {
	case err == nil: // messages are pending; the application gets them, and the status
	case isEOF(err):
		s.finishOK(a)
	default:
		_ = s.failed(a, err) // RecvMsg gives it
	}
}

// isReplaced reports whether another attempt took the place of a.
func (s *clientStream) isReplaced(a *streamAttempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && s.current != a
}

// recvStatus returns the status of a, whose stream is broken: io.EOF for OK. If
// there may be a message before the status it commits the call and returns nil.
// The caller holds the token.
//
// With the standard codec a message is received into an empty one, which keeps
// all its bytes for the application. Other codecs do not allow that; there, no
// headers mean that there is no message.
func (s *clientStream) recvStatus(a *streamAttempt) error {
	m := &emptypb.Empty{}
	if !s.codec.standard {
		if md, err := a.cs.Header(); err != nil || md != nil {
			return s.commitOrDrain(a)
		}
		return a.cs.RecvMsg(m)
	}
	if err := a.cs.RecvMsg(m); err != nil {
		return err
	}
	if s.desc.ServerStreams {
		if err := s.commitOrDrain(a); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.pending = m
	s.mu.Unlock()
	if !s.desc.ServerStreams {
		return io.EOF // that was the whole answer, and its status was OK
	}
	return nil
}

// commitOrDrain commits the call to a, or ends a if its timeout came first. The
// caller holds the token.
func (s *clientStream) commitOrDrain(a *streamAttempt) error {
	if s.commitTo(a) {
		return nil
	}
	return s.drain(a)
}

// drain waits for the end of an attempt whose timeout has cancelled it, and
// returns what such an attempt ends with. The caller holds the token.
func (s *clientStream) drain(a *streamAttempt) error {
	for {
		if err := a.cs.RecvMsg(&emptypb.Empty{}); err != nil {
			return status.FromContextError(context.Canceled).Err()
		}
	}
}

// commitTo commits the call to a if it still is the current attempt and was not
// given up.
func (s *clientStream) commitTo(a *streamAttempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current == a && s.commitLocked(a)
}

// CloseSend says that the application sends no more. Every attempt that follows
// is told as well, by its replay, which this does not wait for.
func (s *clientStream) CloseSend() error {
	s.mu.Lock()
	s.halfClosed = true
	a, wait := s.current, s.ended
	if a.ready != nil && !a.replayed {
		wait = true
	}
	s.mu.Unlock()
	if wait {
		return nil
	}
	return a.cs.CloseSend()
}

// replaceBy makes a the current attempt, after one that failed with cause, and
// sends it all that the application has sent. The caller holds the token.
//
// A server may not read on before its answer is received, or its headers are, so
// where there can be many messages the replay runs beside the receiver, in the one
// goroutine of this package; it ends with the attempt.
func (s *clientStream) replaceBy(a *streamAttempt, cause error) {
	s.mu.Lock()
	before := s.current
	s.current = a
	sent := s.sent
	if !sent.empty() || s.halfClosed {
		a.ready = make(chan struct{})
	}
	if before != nil {
		before.decideLocked()
	}
	s.mu.Unlock()
	switch {
	case a.ready == nil:
	case s.desc.ClientStreams:
		go s.replay(a, sent, cause)
	default:
		s.replay(a, sent, cause)
	}
}

// replay sends messages on a, and the half-close. When that fails, the attempt
// does, and whoever receives from it learns why. A message that cannot be made
// again ends the call with the failure that asked for the retry.
func (s *clientStream) replay(a *streamAttempt, sent sentLog, cause error) {
	over := false
	defer func() {
		if !over { // nobody else can recover in a goroutine of ours
			s.breakOff(a, Final(&panicError{value: recover(), stack: debug.Stack()}))
		}
		close(a.ready)
	}()
	s.sendAgain(a, sent, cause)
	over = true
}

// sendAgain is replay, but for panics.
func (s *clientStream) sendAgain(a *streamAttempt, sent sentLog, cause error) {
	for kind, bytes := range sent.all() {
		m, err := s.codec.decode(kind, bytes)
		if err != nil {
			s.breakOff(a, Final(cause))
			return
		}
		if err = a.cs.SendMsg(m); err != nil {
			if !isEOF(err) {
				s.breakOff(a, err)
			}
			return
		}
	}
	s.mu.Lock()
	a.replayed = true
	halfClosed := s.halfClosed
	s.mu.Unlock()
	if halfClosed {
		_ = a.cs.CloseSend() // always nil; the status tells
	}
}
