package retrybudget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// UnaryServerInterceptor returns the interceptor for the unary handlers of a
// service that is a client itself. It carries what the service learned while it
// served a call back to the caller, so that layers of retries do not multiply:
//
//   - The handler's context tells the number of the incoming attempt
//     ([AttemptFromIncomingContext]) and collects what the process's own
//     [Retrier]s meet in calls made with it, or with a context derived from it.
//   - When a budget refused a retry there, or a failure ended a call that
//     carried the hint or forbade a retry, and the handler then fails, the
//     answer carries the trailer retrybudget-exhausted: the caller's budget
//     prices a retry four times higher. It does not forbid one.
//   - A request that arrives with no time left fails with DEADLINE_EXCEEDED
//     before the handler runs.
//
// It panics on invalid options. Put it outside interceptors that may turn the
// handler's answer into another one, recovery from panics among them. Installed
// twice, the inner one does nothing. It is safe for concurrent use.
func UnaryServerInterceptor(opts ...ServerOption) grpc.UnaryServerInterceptor {
	s := newServer(opts)
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if slotFrom(ctx) != nil {
			return handler(ctx, req)
		}
		slot := s.newSlot(ctx)
		if err := s.admit(ctx, slot); err != nil {
			setTrailer(ctx, slot.trailer(s, err))
			return nil, err
		}
		reply, err := handler(context.WithValue(ctx, slotKey{}, slot), req)
		setTrailer(ctx, slot.trailer(s, err))
		return reply, err
	}
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streaming handlers.
func StreamServerInterceptor(opts ...ServerOption) grpc.StreamServerInterceptor {
	s := newServer(opts)
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx := stream.Context()
		if slotFrom(ctx) != nil {
			return handler(srv, stream)
		}
		slot := s.newSlot(ctx)
		err := s.admit(ctx, slot)
		if err == nil {
			err = handler(srv, &slotStream{stream, context.WithValue(ctx, slotKey{}, slot)})
		}
		if md := slot.trailer(s, err); md != nil {
			stream.SetTrailer(md)
		}
		return err
	}
}

// slotStream is a server stream whose context has the slot.
type slotStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is what Context returns
}

func (s *slotStream) Context() context.Context { return s.ctx }

// setTrailer sets md for the unary call of ctx, if there is anything to set and
// a transport to set it on; a handler called without one has nobody to tell.
func setTrailer(ctx context.Context, md metadata.MD) {
	if md != nil {
		_ = grpc.SetTrailer(ctx, md)
	}
}

// server is the configuration of a server interceptor.
type server struct {
	hinted   codeSet
	pushback bool // forbid instead of hinting
	headers  []attemptCounter
	shed     *shedder
	errs     []error
}

// ServerOption configures a server interceptor.
type ServerOption interface {
	applyServer(s *server)
}

type serverOptionFunc func(*server)

func (f serverOptionFunc) applyServer(s *server) { f(s) }

func newServer(opts []ServerOption) *server {
	s := &server{
		hinted:  1<<codes.Unavailable | 1<<codes.ResourceExhausted | 1<<codes.DeadlineExceeded | 1<<codes.Aborted,
		headers: knownAttemptHeaders,
	}
	for _, o := range opts {
		if c, ok := o.(serverConfigOption); ok {
			s.applyConfig(c.cfg)
		}
	}
	for i, o := range opts {
		if o == nil {
			s.errs = append(s.errs, fmt.Errorf("retrybudget: server option %d is nil", i))
			continue
		}
		o.applyServer(s)
	}
	if err := errors.Join(s.errs...); err != nil {
		panic(err)
	}
	return s
}

// WithHintCodes sets the codes of answers that carry the hint. The default is
// UNAVAILABLE, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED and ABORTED: what a handler
// returns when a service behind it fails.
func WithHintCodes(list ...codes.Code) ServerOption {
	return serverOptionFunc(func(s *server) {
		set, err := newCodeSet("WithHintCodes", list)
		if len(list) == 0 {
			err = errors.New("retrybudget: WithHintCodes is empty: leave the option out for the default")
		}
		if err != nil {
			s.errs = append(s.errs, err)
		}
		s.hinted = set
	})
}

// WithPushbackHint sends grpc-retry-pushback-ms: -1 in place of the hint. That
// forbids a retry, which gRPC clients in every language obey, where the hint is
// only understood by this library. Forbidding costs availability when a single
// instance in the middle is sick, so use it for callers that do not use this
// library.
func WithPushbackHint() ServerOption {
	return serverOptionFunc(func(s *server) { s.pushback = true })
}

// WithIncomingAttemptHeader adds a header that counts the attempts before this
// one, for clients that use [WithAttemptHeader].
func WithIncomingAttemptHeader(name string) ServerOption {
	return serverOptionFunc(func(s *server) {
		name = strings.ToLower(name)
		if name != attemptHeader {
			if err := validateHeaderName("WithIncomingAttemptHeader", name); err != nil {
				s.errs = append(s.errs, err)
			}
		}
		s.headers = append(slices.Clip(s.headers), attemptCounter{name, 0})
	})
}

// newSlot returns the slot for a call that arrives with ctx.
func (s *server) newSlot(ctx context.Context) *slot {
	md, _ := metadata.FromIncomingContext(ctx)
	return &slot{attempt: incomingAttempt(md, s.headers)}
}

// admit says whether the handler is to run: not when nobody waits for its answer
// any more, nor for a retry that the load does not allow.
func (s *server) admit(ctx context.Context, slot *slot) error {
	if deadline, has := ctx.Deadline(); has && !deadline.After(time.Now()) {
		return status.Error(codes.DeadlineExceeded, "retrybudget: no time left when the request arrived")
	}
	if s.shed != nil {
		return s.shed.admit(ctx, slot)
	}
	return nil
}
