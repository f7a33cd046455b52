package differential_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// outcome is all that a caller can see of a call.
type outcome struct {
	Text, Type string // of the error
	Code       codes.Code
	Message    string
	Details    []string // one for each, as bytes
	Header     metadata.MD
	Trailer    metadata.MD
	Peer       string
	Reply      string
	Finished   []string // the errors that grpc.OnFinish saw
	// Wire is how the answer of the returned attempt came.
	Wire []string

	err error
}

// attempt is all that a server can see of an attempt.
type attempt struct {
	MD      metadata.MD
	Left    time.Duration // until the deadline
	Request string
	Wire    []string // how the request came
}

// before is in the reply when a call is made: a call that fails must leave it.
const before = "was here before"

// observe makes one call and returns what both ends saw.
func observe(t *testing.T, c differCase, steps []rpctest.Step, opts ...grpc.DialOption) (outcome, []attempt) {
	t.Helper()
	s := rpctest.New()
	s.Script(rpctest.Method, steps...)
	clientWire, serverWire := new(wire), new(wire)
	l := s.Start(t, append(c.server, grpc.StatsHandler(serverWire))...)
	cc := l.Dial(t, append(append(opts, c.dial...), grpc.WithStatsHandler(clientWire))...)
	if c.prepare != nil {
		c.prepare(cc)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if c.ctx != nil {
		ctx = c.ctx(ctx, cancel)
	}

	o := call(ctx, cc, c)

	o.Wire = clientWire.last()
	if c.race {
		require.Error(t, o.err)
		o.Text, o.Message, o.Finished, o.Trailer = "", "", nil, nil
	}
	var attempts []attempt
	for i, e := range s.Entries("") {
		attempts = append(attempts, attempt{e.MD, e.Left, brief(e.Payload), serverWire.of(i)})
	}
	return o, attempts
}

func call(ctx context.Context, cc *grpc.ClientConn, c differCase) outcome {
	o := outcome{}
	var p peer.Peer
	opts := append(append([]grpc.CallOption{grpc.StaticMethod()}, c.opts...),
		grpc.Header(&o.Header), grpc.Trailer(&o.Trailer), grpc.Peer(&p),
		grpc.OnFinish(func(err error) { o.Finished = append(o.Finished, fmt.Sprint(err)) }))
	reply := wrapperspb.String(before)
	var request any = wrapperspb.String(c.text)
	if c.request != nil {
		request = c.request
	}
	o.err = cc.Invoke(ctx, rpctest.Method, request, reply, opts...)
	o.Text, o.Type = fmt.Sprint(o.err), fmt.Sprintf("%T", o.err)
	st := status.Convert(o.err)
	o.Code, o.Message, o.Reply = st.Code(), st.Message(), brief(reply.GetValue())
	for _, d := range st.Proto().GetDetails() {
		o.Details = append(o.Details, d.GetTypeUrl()+" "+string(d.GetValue()))
	}
	if p.Addr != nil {
		o.Peer = p.String()
	}
	return o
}

// requireSameStatus compares the outcome of a retried call with that of the reference
// call, which got the last answer at once. An error may differ from it in type
// and in what its text says about the retries, but gRPC sees the same status.
func requireSameStatus(t *testing.T, want, got outcome) {
	t.Helper()
	if want.err != nil {
		require.ErrorContains(t, got.err, want.Text)
		require.Equal(t, []string{got.Text}, got.Finished)
		got.Text, got.Type, got.Finished = want.Text, want.Type, want.Finished
		// A failed attempt may have filled it, so it is cleared before a retry.
		require.Empty(t, got.Reply)
		got.Reply = want.Reply
	}
	require.Equal(t, clean(want), clean(got))
}

// clean leaves out the error value, which no two calls share.
func clean(o outcome) outcome {
	o.err = nil
	return o
}

// without returns the attempts without a header, and what it held in each.
func without(header string, attempts []attempt) (rest []attempt, values [][]string) {
	for _, a := range attempts {
		values = append(values, a.MD.Get(header))
		a.MD = a.MD.Copy()
		a.MD.Delete(header)
		rest = append(rest, a)
	}
	return rest, values
}

// brief stands for a text in comparisons: itself if it is short.
func brief(text string) string {
	if len(text) < 100 {
		return text
	}
	return fmt.Sprintf("%d bytes, SHA-256 %x", len(text), sha256.Sum256([]byte(text)))
}
