// Package rpctest is a scripted gRPC server for the tests of this module and of
// its nested ones. It answers every method, counts attempts where they arrive,
// and works inside a testing/synctest bubble.
package rpctest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// CallID is the metadata key that tells logical calls apart; see [WithCallID].
const CallID = "call-id"

// Method is the method that [Call] calls.
const Method = "/test.Service/Method"

// Entry is one attempt as the server saw it arrive.
type Entry struct {
	Method   string
	CallID   string
	MD       metadata.MD
	At       time.Time
	Left     time.Duration // until the deadline, 0 without one
	Payload  string        // the request's text
	Finished <-chan struct{}
}

// Server answers attempts by script.
type Server struct {
	// Live counts the handlers that are running.
	Live atomic.Int64

	mu      sync.Mutex
	scripts map[string][]Step
	streams map[string][]func(grpc.ServerStream) error
	seen    map[string]int // attempts by method and call id
	entries []Entry
}

// New returns a server without a script: every method answers OK.
func New() *Server {
	return &Server{scripts: map[string][]Step{}, streams: map[string][]func(grpc.ServerStream) error{}, seen: map[string]int{}}
}

// Script sets the answers of a method: one step for each attempt of a logical
// call, the last one for all that follow.
func (s *Server) Script(method string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[method] = steps
}

// Entries returns the attempts of a logical call in order of arrival, those of
// all calls when id is empty.
func (s *Server) Entries(id string) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var of []Entry
	for _, e := range s.entries {
		if id == "" || e.CallID == id {
			of = append(of, e)
		}
	}
	return of
}

// Attempts counts the attempts of a logical call, all when id is empty.
func (s *Server) Attempts(id string) int { return len(s.Entries(id)) }

// AttemptsOf counts the attempts at a method.
func (s *Server) AttemptsOf(method string) int {
	n := 0
	for _, e := range s.Entries("") {
		if e.Method == method {
			n++
		}
	}
	return n
}

// Gaps returns the times between the arrivals of a logical call's attempts.
func (s *Server) Gaps(id string) []time.Duration {
	var gaps []time.Duration
	entries := s.Entries(id)
	for i := 1; i < len(entries); i++ {
		gaps = append(gaps, entries[i].At.Sub(entries[i-1].At))
	}
	return gaps
}

func (s *Server) handle(_ any, stream grpc.ServerStream) error {
	s.Live.Add(1)
	defer s.Live.Add(-1)
	ctx := stream.Context()
	method, _ := grpc.MethodFromServerStream(stream)
	if handled, err := s.handleStream(stream, method); handled {
		return err
	}
	md, _ := metadata.FromIncomingContext(ctx)
	e := Entry{Method: method, MD: md, At: time.Now(), Finished: ctx.Done()}
	if v := md.Get(CallID); len(v) > 0 {
		e.CallID = v[0]
	}
	if deadline, ok := ctx.Deadline(); ok {
		e.Left = time.Until(deadline)
	}
	var req wrapperspb.StringValue
	if err := stream.RecvMsg(&req); err != nil {
		return err
	}
	e.Payload = req.GetValue()
	step := s.arrive(e)
	if err := step(ctx, stream); err != nil {
		return err
	}
	return stream.SendMsg(&req)
}

// arrive notes an attempt and returns its step.
func (s *Server) arrive(e Entry) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, e)
	key := e.Method + " " + e.CallID
	n := s.seen[key]
	s.seen[key]++
	steps := s.scripts[e.Method]
	if len(steps) == 0 {
		return OK()
	}
	return steps[min(n, len(steps)-1)]
}

// Start serves s in memory until the test ends.
func (s *Server) Start(t testing.TB, opts ...grpc.ServerOption) *Listener {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(append(opts, grpc.UnknownServiceHandler(s.handle))...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	return &Listener{l, srv}
}

// Listener is where a started server is found.
type Listener struct {
	l      *bufconn.Listener
	Server *grpc.Server
}

// Dial connects to it until the test ends.
func (l *Listener) Dial(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return l.DialTarget(t, "passthrough:///bufnet", opts...)
}

// DialTarget is Dial under a target string of the test's choice.
func (l *Listener) DialTarget(t testing.TB, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	all := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.l.DialContext(ctx) }),
	}, opts...)
	cc, err := grpc.NewClient(target, all...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// Dial starts s and connects to it.
func (s *Server) Dial(t testing.TB, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return s.Start(t).Dial(t, opts...)
}

// WithCallID returns a context whose calls are one logical call to the server.
func WithCallID(ctx context.Context, id string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, CallID, id)
}

// Call makes one unary call of [Method].
func Call(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	return CallMethod(ctx, cc, Method, opts...)
}

// CallMethod makes one unary call of a method of any name.
func CallMethod(ctx context.Context, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) error {
	var reply wrapperspb.StringValue
	return cc.Invoke(ctx, method, wrapperspb.String("hello"), &reply, opts...)
}
