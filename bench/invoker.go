package main

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// The most allocations that the interceptor may make for a call.
const (
	maxSuccessAllocs = 1
	maxRetriedAllocs = 16
)

// invokerSections measure interceptors alone, around an invoker that does
// nothing: what is left is their own cost.
func invokerSections() []section {
	success := section{name: "invoker/success", bare: bareName, contestants: []contestant{
		{bareName, invokerSubject(nil, 0), -1},
		{retrybudget, invokerSubject(retrybudgetDeposits, 0), maxSuccessAllocs},
		{retrybudget + ", bucket full", invokerSubject(retrybudgetDefault, 0), maxSuccessAllocs},
		{retrybudget + ", Prometheus", invokerSubject(retrybudgetObserved, 0), maxSuccessAllocs},
		{middleware, invokerSubject(middlewareInterceptor, 0), -1},
		{failsafe, invokerSubject(failsafeInterceptor, 0), -1},
	}}
	retried := section{name: "invoker/fails-twice", bare: bareName, contestants: []contestant{
		{bareName, invokerSubject(nil, 2), -1},
		{retrybudget, invokerSubject(retrybudgetUnlimited, 2), maxRetriedAllocs},
		{headerAlone, invokerSubject(headerInterceptor, 2), -1},
		{middleware, invokerSubject(middlewareInterceptor, 2), -1},
		{failsafe, invokerSubject(failsafeInterceptor, 2), -1},
	}}
	return []section{success, retried}
}

var (
	errUnavailable = status.Error(codes.Unavailable, "unavailable")
	errNotRetried  = errors.New("bench: the call was not retried as it should be")
)

// invokerSubject calls an interceptor, or the invoker itself if there is none,
// as generated code would: with two call options, on a real connection that
// is never used. The first fails attempts of every call are UNAVAILABLE.
func invokerSubject(build func() (grpc.UnaryClientInterceptor, error), fails int) func() (subject, error) {
	return func() (subject, error) {
		intercept := tryUntilOK
		if build != nil {
			var err error
			if intercept, err = build(); err != nil {
				return subject{}, err
			}
		}
		cc, err := grpc.NewClient("passthrough:///bench", grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return subject{}, err
		}
		run := func(n int) error { return runInvoker(intercept, cc, fails, n) }
		return subject{run: run, close: func() { _ = cc.Close() }}, nil
	}
}

func runInvoker(intercept grpc.UnaryClientInterceptor, cc *grpc.ClientConn, fails, n int) error {
	attempts := 0
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		attempts++
		if attempts%(fails+1) != 0 {
			return errUnavailable
		}
		return nil
	}
	ctx := context.Background()
	if fails > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, "request-id", "4f2a", "tenant", "seven")
	}
	req, reply := new(quickstartv1.GetStockRequest), new(quickstartv1.GetStockResponse)
	var header metadata.MD
	opts := []grpc.CallOption{grpc.StaticMethod(), grpc.Header(&header)}
	for range n {
		if err := intercept(ctx, quickstartv1.InventoryService_GetStock_FullMethodName, req, reply, cc, invoke, opts...); err != nil {
			return err
		}
	}
	if attempts != n*(fails+1) {
		return errNotRetried
	}
	return nil
}

// headerAlone is what every retry has to cost that marks itself as gRFC A6 says: a
// look at what the caller sent, the header, options to read the trailer with, and
// a reply made empty again. It decides nothing.
const headerAlone = "attempt header alone"

func headerInterceptor() (grpc.UnaryClientInterceptor, error) {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		const header = "grpc-previous-rpc-attempts"
		for previous := 0; ; previous++ {
			attempt := ctx
			if previous == 1 && metadata.ValueFromOutgoingContext(ctx, header) != nil {
				return errNotRetried
			}
			if previous > 0 {
				attempt = metadata.AppendToOutgoingContext(ctx, header, strconv.Itoa(previous))
				proto.Reset(reply.(proto.Message)) //nolint:errcheck,forcetypeassert // it is one
			}
			room := &struct {
				trailer metadata.MD
				opts    [4]grpc.CallOption
			}{}
			pass := append(append(room.opts[:0], opts...), grpc.Trailer(&room.trailer))
			if invoker(attempt, method, req, reply, cc, pass...) == nil {
				return nil
			}
		}
	}, nil
}

// tryUntilOK is the least that can be done: it looks at nothing and stops for
// nothing but success.
func tryUntilOK(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	for invoker(ctx, method, req, reply, cc, opts...) != nil { //nolint:revive // the condition is the work
	}
	return nil
}
