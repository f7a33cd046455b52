package differential_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrybudget/retrybudget/internal/rpctest"
)

func allCases() []differCase {
	return slices.Concat(codeCases(), messageCases(), metadataCases(), optionCases(), endingCases(), localCases())
}

// rich returns an answer that fills everything a caller can look at; mark tells
// the answers of one call apart.
func rich(code codes.Code, mark string) answer {
	a := answer{
		code:    code,
		message: "shard 7 \t☺ \n 100% " + mark,
		header:  metadata.Pairs("h", "first "+mark, "h", "second", "only-"+mark, "x", "h-bin", "\x00\xff\n"+mark),
		trailer: metadata.Pairs("t", "first "+mark, "t", "second", "only-"+mark, "x", "t-bin", "\x00\xff\n"+mark),
	}
	if code != codes.OK {
		a.details = []protoadapt.MessageV1{
			&errdetails.ErrorInfo{Reason: "SHARD_DOWN", Domain: "example.com", Metadata: map[string]string{"mark": mark}},
			&errdetails.DebugInfo{StackEntries: []string{"a", "b " + mark}},
		}
	}
	return a
}

// early makes a send its header before its status is known.
func early(a answer) answer {
	a.early = true
	return a
}

// codeCases has every code, with a header that comes with the status and one
// that is sent before it.
func codeCases() []differCase {
	var cases []differCase
	for code := codes.OK; code <= codes.Unauthenticated+1; code++ { // and one that gRPC does not know
		answers := []answer{rich(code, "last")}
		if code == codes.Unavailable {
			answers = []answer{rich(code, "one"), rich(code, "two"), rich(code, "last")}
		}
		earlier := make([]answer, len(answers))
		for i := range answers {
			earlier[i] = early(answers[i])
		}
		cases = append(cases,
			differCase{name: code.String(), answers: steps(answers...), text: "hello"},
			differCase{name: code.String() + " after headers", answers: steps(earlier...), text: "hello"},
			differCase{name: code.String() + " bare", answers: slices.Repeat(steps(answer{code: code}), len(answers)), text: "hello"},
		)
	}
	wait := rich(codes.ResourceExhausted, "last")
	wait.details = append(wait.details, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	down, gone := rich(codes.Unavailable, "one"), rich(codes.NotFound, "last")
	veto := rich(codes.Unavailable, "last")
	veto.trailer.Set("grpc-retry-pushback-ms", "-1")
	return append(cases,
		differCase{name: "ResourceExhausted with RetryInfo", answers: steps(wait, wait, wait), text: "hello"},
		differCase{name: "Unavailable, then NotFound", answers: steps(down, gone), text: "hello"},
		differCase{name: "Unavailable after headers, then OK", answers: steps(early(down), answer{}), text: "hello"},
		differCase{name: "Unavailable, then OK with everything", answers: steps(down, rich(codes.OK, "last")), text: "hello"},
		differCase{name: "Unavailable twice, then DataLoss after headers", answers: steps(down, down, early(rich(codes.DataLoss, "last"))), text: "hello"},
		differCase{name: "Unavailable with everything, then bare", answers: steps(down, down, answer{code: codes.Unavailable}), text: "hello"},
	)
}

// messageCases has messages of all sizes, answered at once and after failures.
func messageCases() []differCase {
	var cases []differCase
	texts := map[string]string{"empty": "", "short": "hello", "1 MiB": strings.Repeat("0123456789abcdef", 1<<16)}
	encodings := map[string][]grpc.CallOption{"plain": nil, "gzip": {grpc.UseCompressor(gzip.Name)}}
	down, fine := answer{code: codes.Unavailable}, answer{}
	for size, text := range texts {
		for encoding, opts := range encodings {
			cases = append(cases,
				differCase{name: size + " " + encoding, text: text, opts: opts},
				differCase{name: size + " " + encoding + ", after failures", answers: steps(down, down, fine), text: text, opts: opts},
				differCase{name: size + " " + encoding + ", failing", answers: steps(down, down, down), text: text, opts: opts},
			)
		}
	}
	return cases
}

// metadataCases has metadata of the caller's, on calls that are retried.
func metadataCases() []differCase {
	down, fine := answer{code: codes.Unavailable}, answer{}
	build := map[string]func(context.Context) context.Context{
		"no metadata": func(ctx context.Context) context.Context { return ctx },
		"metadata": func(ctx context.Context) context.Context {
			return metadata.AppendToOutgoingContext(ctx, "a", "1", "Upper", "2", "a", "3", "empty", "")
		},
		"binary metadata": func(ctx context.Context) context.Context {
			return metadata.AppendToOutgoingContext(ctx, "b-bin", "\x00\x01\xfe\xff\n", "b-bin", "", "b-bin", "text")
		},
		"metadata from a map": func(ctx context.Context) context.Context {
			return metadata.NewOutgoingContext(ctx, metadata.MD{"a": {"1", "2"}, "b-bin": {"\x00"}, "none": {}})
		},
		"metadata from a map and appended": func(ctx context.Context) context.Context {
			ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs("a", "1"))
			return metadata.AppendToOutgoingContext(metadata.AppendToOutgoingContext(ctx, "a", "2"), "a", "3", "b-bin", "\xff")
		},
		"the attempt header in the caller's hand": func(ctx context.Context) context.Context {
			return metadata.AppendToOutgoingContext(ctx, attemptHeader, "7", "a", "1", attemptHeader, "8")
		},
		"the attempt header in a map": func(ctx context.Context) context.Context {
			return metadata.NewOutgoingContext(ctx, metadata.Pairs(attemptHeader, "7", "a", "1"))
		},
	}
	var cases []differCase
	for name, f := range build {
		ctx := func(ctx context.Context, _ context.CancelFunc) context.Context { return f(ctx) }
		cases = append(cases,
			differCase{name: name, text: "hello", ctx: ctx},
			differCase{name: name + ", after failures", answers: steps(down, down, fine), text: "hello", ctx: ctx},
		)
	}
	return cases
}

// optionCases has call options that change what goes over the wire.
func optionCases() []differCase {
	down, fine := answer{code: codes.Unavailable}, answer{}
	options := map[string][]grpc.CallOption{
		"wait for ready":         {grpc.WaitForReady(true)},
		"credentials":            {grpc.PerRPCCredentials(token{})},
		"content subtype":        {grpc.CallContentSubtype("proto")},
		"more than three":        {grpc.WaitForReady(true), grpc.PerRPCCredentials(token{}), grpc.MaxCallRecvMsgSize(1 << 10), grpc.MaxRetryRPCBufferSize(1)},
		"OnFinish of the caller": {grpc.OnFinish(func(error) {})},
	}
	var cases []differCase
	for name, opts := range options {
		cases = append(cases,
			differCase{name: name, text: "hello", opts: opts},
			differCase{name: name + ", after failures", answers: steps(down, down, fine), text: "hello", opts: opts},
		)
	}
	return cases
}

// endingCases has calls that time ends, or the caller.
func endingCases() []differCase {
	within := func(d time.Duration) func(context.Context, context.CancelFunc) context.Context {
		return func(ctx context.Context, _ context.CancelFunc) context.Context {
			ctx, cancel := context.WithTimeout(ctx, d)
			context.AfterFunc(ctx, cancel)
			return ctx
		}
	}
	down, fine := answer{code: codes.Unavailable}, answer{}
	return []differCase{
		{name: "deadline", text: "hello", ctx: within(5 * time.Second)},
		{name: "deadline, after failures", answers: steps(down, down, fine), text: "hello", ctx: within(5 * time.Second)},
		{name: "deadline reached", answers: []rpctest.Step{rpctest.Hang()}, text: "hello", ctx: within(time.Second), race: true},
		{name: "deadline reached before", text: "hello", ctx: within(0), unserved: true},
		{
			name: "cancelled", answers: []rpctest.Step{rpctest.Hang()}, text: "hello",
			ctx: func(ctx context.Context, cancel context.CancelFunc) context.Context {
				time.AfterFunc(time.Second, cancel)
				return ctx
			},
		},
		{
			name: "cancelled before", text: "hello", unserved: true,
			ctx: func(ctx context.Context, cancel context.CancelFunc) context.Context {
				cancel()
				return ctx
			},
		},
	}
}

// localCases has calls that grpc-go itself fails.
func localCases() []differCase {
	noServer := grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
		return nil, errors.New("no server here")
	})
	return []differCase{
		{name: "request over the limit", text: "hello", opts: []grpc.CallOption{grpc.MaxCallSendMsgSize(3)}, unserved: true},
		{name: "reply over the limit", text: "hello", opts: []grpc.CallOption{grpc.MaxCallRecvMsgSize(3)}},
		{name: "request over the server's limit", text: "hello", server: []grpc.ServerOption{grpc.MaxRecvMsgSize(3)}, unserved: true},
		{name: "request that is no message", request: "hello", unserved: true},
		{name: "unknown compressor", text: "hello", opts: []grpc.CallOption{grpc.UseCompressor("unknown")}, unserved: true},
		{name: "unknown content subtype", text: "hello", opts: []grpc.CallOption{grpc.CallContentSubtype("unknown")}, unserved: true},
		{
			name: "invalid metadata", text: "hello", unserved: true,
			ctx: func(ctx context.Context, _ context.CancelFunc) context.Context {
				return metadata.AppendToOutgoingContext(ctx, "a", "\x00")
			},
		},
		{name: "no server", text: "hello", dial: []grpc.DialOption{noServer}, retried: true},
		{name: "closed connection", text: "hello", prepare: func(cc *grpc.ClientConn) { _ = cc.Close() }, unserved: true},
	}
}
