package streammodel_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/retrybudget/retrybudget"
)

const (
	method = "/test.Service/Stream"
	// warmUp is a method of its own, so that it has a budget of its own.
	warmUp = "/test.Service/WarmUp"
	// window is how many bytes of a stream may be under way unread.
	window = 64 << 10
)

// A world is one run of a plan: a server that follows the scripts, a connection
// with the Retrier, one stream, and notes of all that happened.
type world struct {
	plan  plan
	began time.Time
	r     *retrybudget.Retrier
	cc    *grpc.ClientConn

	mu       sync.Mutex
	trace    []string
	wrong    []string
	attempts []*attempt // in order of arrival
	app      app
	retries  []retrybudget.RetryEvent
	ended    []retrybudget.CallEvent
	endedAt  time.Duration
}

// open starts server and connection, and warms the connection up, so that what
// comes with the first call is there.
func (w *world) open(t *rapid.T) {
	perCall, total := w.plan.limit, 16<<20
	if w.plan.ofAll {
		perCall, total = 256<<10, w.plan.limit
	}
	var err error
	w.r, err = retrybudget.New(
		retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts: w.plan.maxAttempts, Idempotency: w.plan.level,
			PerAttemptTimeout: w.plan.attemptTimeout, Backoff: retrybudget.ConstantBackoff(w.plan.backoff),
		}),
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Capacity: 30, Initial: w.plan.tokens})),
		retrybudget.WithReplayLimits(perCall, total),
		retrybudget.WithObserver(w),
	)
	if err != nil {
		t.Fatal(err)
	}
	l := bufconn.Listen(1 << 20)
	// Without them the windows grow while a connection is used.
	srv := grpc.NewServer(grpc.StaticStreamWindowSize(window), grpc.UnknownServiceHandler(func(srv any, stream grpc.ServerStream) error {
		if name, _ := grpc.MethodFromServerStream(stream); name == warmUp {
			return stream.SendMsg(&wrapperspb.BytesValue{})
		}
		return w.handle(srv, stream)
	}))
	go func() { _ = srv.Serve(l) }() // ends with Stop
	t.Cleanup(srv.Stop)
	w.cc, err = grpc.NewClient("passthrough:///bufnet", append(w.r.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStaticStreamWindowSize(window),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cc.Close() })
	if err := w.cc.Invoke(t.Context(), warmUp, &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{}); err != nil {
		t.Fatal(err)
	}
	w.ended, w.endedAt, w.trace = nil, 0, nil
}

// run runs the plan and returns what was wrong.
func (w *world) run(t *rapid.T) []string {
	w.open(t)
	synctest.Wait()
	goroutines := runtime.NumGoroutine()
	w.began = time.Now()
	w.call(t.Context())
	rest()
	if runtime.NumGoroutine() > goroutines {
		w.lookForLeaks()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge()
	return w.wrong
}

// lookForLeaks looks for goroutines of the call: NumGoroutine also counts some
// that are ending, and some of the runtime.
func (w *world) lookForLeaks() {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		for _, frame := range []string{"retrybudget.(", "grpc.newClientStreamWithParams", "grpc.(*Server).handleStream"} {
			if bytes.Contains(stack, []byte(frame)) {
				w.fail("a goroutine is left: %s", stack)
			}
		}
	}
}

// rest lets everything else come to rest: time moves on only when nothing else
// can.
func rest() { <-time.After(1) }

func (w *world) now() time.Duration { return time.Since(w.began) }

// note adds to the trace; the caller holds mu.
func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%12v ", w.now())+fmt.Sprintf(format, args...))
}

// fail notes something wrong. Unlike rapid's own, it does not end the run.
func (w *world) fail(format string, args ...any) {
	w.note("WRONG: "+format, args...)
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// story is the trace as a text.
func (w *world) story() string { return strings.Join(w.trace, "\n") }

// RetrySent notes a retry.
func (w *world) RetrySent(e retrybudget.RetryEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retries = append(w.retries, e)
	w.note("retry: attempt %d after %v", e.Call.Attempt, e.Cause.Err)
}

// RetryRefused does nothing: CallEnded has the reason.
func (w *world) RetryRefused(retrybudget.RefusalEvent) {}

// CallEnded notes the end.
func (w *world) CallEnded(e retrybudget.CallEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, e)
	w.endedAt = w.now()
	w.note("the call ends: reason %q, %v", e.Reason, e.Err)
}

// Warned notes a warning; there should be none.
func (w *world) Warned(e retrybudget.WarningEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail("warned: %s", e.Text)
}

// attemptOf is the attempt that metadata of the server comes from, "" if it does
// not say.
func attemptOf(md metadata.MD) string {
	if v := md.Get("attempt"); len(v) == 1 {
		return v[0]
	}
	return ""
}
