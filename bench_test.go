package retrybudget_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// What the interceptor costs is measured around an invoker that does nothing:
// go test -run '^$' -bench . -benchmem

// bareCall returns a function that makes one call through r, as generated code
// with grpc.Header would, whose first attempts fail. Its context carries two
// metadata pairs and its connection is never used.
func bareCall(tb testing.TB, r *retrybudget.Retrier, failures int) func() error {
	tb.Helper()
	cc, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = cc.Close() })
	unavailable := status.Error(codes.Unavailable, "no")
	invoker := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		if retrybudget.AttemptFromContext(ctx) <= failures {
			return unavailable
		}
		return nil
	}
	interceptor := r.UnaryClientInterceptor()
	ctx := metadata.AppendToOutgoingContext(tb.Context(), "request-id", "42", "tenant", "seven")
	req, reply := wrapperspb.String("hello"), new(wrapperspb.StringValue)
	header := new(metadata.MD)
	opts := []grpc.CallOption{grpc.StaticMethod(), grpc.Header(header)}
	return func() error { return interceptor(ctx, rpctest.Method, req, reply, cc, invoker, opts...) }
}

// paths are the ways of a call that are measured.
var paths = []struct {
	name     string
	failures int
	allocs   float64 // the most that is accepted
}{
	{"OK", 0, 1},
	{"FailsTwice", 2, 16},
}

// benchRetrier is warmed up, so that its key exists and its latency is known.
func benchRetrier(tb testing.TB) *retrybudget.Retrier {
	tb.Helper()
	r := newRetrier(tb, atOnce(3), retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{
		Capacity: 1_000_000_000, Initial: 1_000_000_000,
	})))
	warm := bareCall(tb, r, 0)
	for range 100 {
		require.NoError(tb, warm())
	}
	return r
}

// Not parallel: other tests' allocations would be counted too.
func TestCall_allocations(t *testing.T) {
	for _, path := range paths {
		t.Run(path.name, func(t *testing.T) {
			call := bareCall(t, benchRetrier(t), path.failures)
			n := testing.AllocsPerRun(1000, func() {
				if err := call(); err != nil {
					t.Error(err)
				}
			})
			t.Logf("%v allocations", n)
			assert.LessOrEqual(t, n, path.allocs)
		})
	}
}

func BenchmarkCall(b *testing.B) {
	for _, path := range paths {
		b.Run(path.name, func(b *testing.B) {
			call := bareCall(b, benchRetrier(b), path.failures)
			b.ReportAllocs()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(path.name+"/parallel", func(b *testing.B) {
			call := bareCall(b, benchRetrier(b), path.failures)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := call(); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkTokenBucket(b *testing.B) {
	const large = 1_000_000_000
	for _, bm := range []struct {
		name string
		cfg  retrybudget.TokenBucketConfig
		op   func(*retrybudget.TokenBucket)
	}{
		{"RecordSuccess/room", retrybudget.TokenBucketConfig{Capacity: large, Ratio: 0.001}, (*retrybudget.TokenBucket).RecordSuccess},
		{"RecordSuccess/full", retrybudget.TokenBucketConfig{Initial: 20}, (*retrybudget.TokenBucket).RecordSuccess},
		{"TryTake/room", retrybudget.TokenBucketConfig{Capacity: large, Initial: large}, func(t *retrybudget.TokenBucket) { t.TryTake(plain) }},
		{"TryTake/empty", retrybudget.TokenBucketConfig{}, func(t *retrybudget.TokenBucket) { t.TryTake(plain) }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			bucket := newTokenBucket(b, bm.cfg)
			b.ReportAllocs()
			for b.Loop() {
				bm.op(bucket)
			}
		})
		b.Run(bm.name+"/parallel", func(b *testing.B) {
			bucket := newTokenBucket(b, bm.cfg)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					bm.op(bucket)
				}
			})
		})
	}
}

// Calls of names that find no room in a key table whose budgets are all spent:
// what a proxy pays in an outage.
func BenchmarkKeys_withoutRoom(b *testing.B) {
	r := newRetrier(b, atOnce(2), retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 1, Initial: 1})))
	for i := range 2000 {
		callName(b.Context(), r, fmt.Sprintf("/x.X/%d", i), codes.Unavailable)
	}
	b.ReportAllocs()
	for b.Loop() {
		callName(b.Context(), r, "/x.X/1999", codes.Unavailable)
	}
}

// Calls of more names than there is room for, all healthy: each pushes another
// out.
func BenchmarkKeys_comingAndGoing(b *testing.B) {
	r := newRetrier(b, retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{})))
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("/x.X/%d", i)
		callName(b.Context(), r, names[i], codes.OK)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		callName(b.Context(), r, names[i%len(names)], codes.OK)
		i++
	}
}

func BenchmarkExponentialBackoff(b *testing.B) {
	for name, n := range map[string]int{"first": 1, "tenth": 10, "last": math.MaxInt} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = retrybudget.ExponentialBackoff{}.Wait(nth(n))
			}
		})
	}
}
