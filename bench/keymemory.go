package main

import (
	"context"
	"fmt"
	"runtime"

	"google.golang.org/grpc"

	rb "github.com/retrybudget/retrybudget"
)

// maxKeyBytes is the most memory that a Retrier may keep for a method.
const maxKeyBytes = 256

// keyBytes returns how much memory a Retrier with the default budget keeps for
// each method it has seen, the method's name aside.
func keyBytes() (float64, error) {
	const methods = 10_000
	r, err := rb.New(rb.WithMaxKeys(methods))
	if err != nil {
		return 0, err
	}
	names := make([]string, methods)
	for i := range names {
		names[i] = fmt.Sprintf("/bench.Service/Method%d", i)
	}
	intercept := r.UnaryClientInterceptor()
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	before := liveBytes()
	for _, name := range names {
		if err := intercept(context.Background(), name, nil, nil, nil, invoke); err != nil {
			return 0, err
		}
	}
	after := liveBytes()
	runtime.KeepAlive(r)
	runtime.KeepAlive(names)
	return float64(after-before) / methods, nil
}

// liveBytes is the memory of what can still be reached.
func liveBytes() int64 {
	runtime.GC()
	runtime.GC() // the first may leave what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
