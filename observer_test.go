package retrybudget_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// diary writes a line for each event, in order, under its own name.
type diary struct {
	name string
	mu   *sync.Mutex
	line *[]string
}

func (d diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*d.line = append(*d.line, d.name+fmt.Sprintf(format, args...))
}

func (d diary) RetrySent(e retrybudget.RetryEvent) {
	d.write("sent %d after %d %v, wait %v, guided %v", e.Call.Attempt, e.Cause.Attempt, e.Cause.Code, e.Wait, e.FromGuidance)
}

func (d diary) RetryRefused(e retrybudget.RefusalEvent) {
	d.write("refused after %d %v: %v, observed %v", e.Call.Attempt, e.Cause.Code, e.Reason, e.Observed)
}

func (d diary) CallEnded(e retrybudget.CallEvent) {
	d.write("ended with %d attempts: %v %q, waited %v", e.Call.Attempt, e.Code, e.Reason, e.Waited)
}

func (d diary) Warned(e retrybudget.WarningEvent) { d.write("warned %s", e.Method) }

func newDiary(name string) diary { return diary{name, new(sync.Mutex), new([]string)} }

// What fires, in which order: a retry only when it is really sent, a refusal
// only for a failure that could have been retried, an end always.
func TestObserver_events(t *testing.T) {
	t.Parallel()
	unavailable := rpctest.Unavailable()
	empty := retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{}))
	for _, tt := range []struct {
		name    string
		steps   []rpctest.Step
		options []retrybudget.Option
		call    []grpc.CallOption
		want    []string
	}{
		{"OK", []rpctest.Step{rpctest.OK()}, nil, nil, []string{
			`ended with 1 attempts: OK "", waited 0s`,
		}},
		{"not retryable", []rpctest.Step{rpctest.Fail(codes.NotFound, "")}, nil, nil, []string{
			`ended with 1 attempts: NotFound "not_retryable", waited 0s`,
		}},
		{"one retry", []rpctest.Step{unavailable, rpctest.OK()}, nil, nil, []string{
			`sent 2 after 1 Unavailable, wait 100ms, guided false`,
			`ended with 2 attempts: OK "", waited 100ms`,
		}},
		{"attempts used up", []rpctest.Step{unavailable}, nil, nil, []string{
			`sent 2 after 1 Unavailable, wait 100ms, guided false`,
			`sent 3 after 2 Unavailable, wait 200ms, guided false`,
			`refused after 3 Unavailable: max_attempts, observed false`,
			`ended with 3 attempts: Unavailable "max_attempts", waited 300ms`,
		}},
		{"answered at last", []rpctest.Step{unavailable, rpctest.Fail(codes.NotFound, "")}, nil, nil, []string{
			`sent 2 after 1 Unavailable, wait 100ms, guided false`,
			`ended with 2 attempts: NotFound "not_retryable", waited 100ms`,
		}},
		{"empty budget", []rpctest.Step{unavailable}, []retrybudget.Option{empty}, nil, []string{
			`refused after 1 Unavailable: budget, observed false`,
			`ended with 1 attempts: Unavailable "budget", waited 0s`,
		}},
		{"empty budget, only observed", []rpctest.Step{unavailable, rpctest.OK()}, []retrybudget.Option{empty, retrybudget.WithMode(retrybudget.Observe)}, nil, []string{
			`refused after 1 Unavailable: budget, observed true`,
			`sent 2 after 1 Unavailable, wait 100ms, guided false`,
			`ended with 2 attempts: OK "", waited 100ms`,
		}},
		{"cancelled during the wait", []rpctest.Step{rpctest.Fail(codes.ResourceExhausted, "cancel soon")}, []retrybudget.Option{
			retrybudget.WithPolicy(retrybudget.Policy{RetryableCodes: []codes.Code{codes.ResourceExhausted}, Backoff: retrybudget.ConstantBackoff(time.Hour)}),
		}, nil, []string{
			`refused after 1 ResourceExhausted: canceled, observed false`,
			`ended with 1 attempts: Canceled "canceled", waited 0s`,
		}},
		{"pushback", []rpctest.Step{rpctest.Pushback(unavailable, "30"), rpctest.Pushback(unavailable, "-1")}, nil, nil, []string{
			`sent 2 after 1 Unavailable, wait 30ms, guided true`,
			`refused after 2 Unavailable: pushback, observed false`,
			`ended with 2 attempts: Unavailable "pushback", waited 30ms`,
		}},
		{"no time", []rpctest.Step{unavailable}, []retrybudget.Option{
			retrybudget.WithPolicy(retrybudget.Policy{Timeout: time.Second, Backoff: retrybudget.ConstantBackoff(time.Hour)}),
		}, nil, []string{
			`refused after 1 Unavailable: deadline, observed false`,
			`ended with 1 attempts: Unavailable "deadline", waited 0s`,
		}},
		{"disabled", []rpctest.Step{unavailable}, nil, []grpc.CallOption{retrybudget.CallDisabled()}, []string{
			`ended with 1 attempts: Unavailable "disabled", waited 0s`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.steps...)
				d := newDiary("")
				options := append([]retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(100*time.Millisecond, 2)})}, tt.options...)
				cc := s.Dial(t, newRetrier(t, append(options, retrybudget.WithObserver(d))...).DialOptions()...)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Minute, cancel)
				_ = rpctest.Call(ctx, cc, tt.call...)
				assert.Equal(t, tt.want, *d.line)
				cancel()
			})
		})
	}
}

// The time of each attempt, the waits and the whole are told apart, so that a
// slow call shows why it was slow.
func TestObserver_timesOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method,
			rpctest.After(10*time.Millisecond, rpctest.RetryInfo(codes.Unavailable, time.Millisecond)),
			rpctest.After(20*time.Millisecond, rpctest.Fail(codes.Unavailable, "two")),
			rpctest.After(30*time.Millisecond, rpctest.OK()))
		journal := &callJournal{}
		r := newRetrier(t, retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{
			Idempotency: retrybudget.Idempotent, Backoff: exact(100*time.Millisecond, 2),
		}))
		cc := s.Dial(t, r.DialOptions()...)
		type key struct{}

		require.NoError(t, rpctest.Call(context.WithValue(t.Context(), key{}, "mine"), cc))

		require.Len(t, journal.ended, 1)
		e := journal.ended[0]
		require.Len(t, e.Earlier, 2)
		for i, want := range []retrybudget.AttemptRecord{
			{Attempt: 1, Code: codes.Unavailable, Duration: 10 * time.Millisecond},
			{Attempt: 2, Code: codes.Unavailable, Wait: 100 * time.Millisecond, Duration: 20 * time.Millisecond},
		} {
			require.Error(t, e.Earlier[i].Err)
			want.Err = e.Earlier[i].Err
			assert.Equal(t, want, e.Earlier[i])
		}
		assert.Equal(t, retrybudget.AttemptRecord{Attempt: 3, Wait: 200 * time.Millisecond, Duration: 30 * time.Millisecond}, e.Last)
		assert.Equal(t, 300*time.Millisecond, e.Waited)
		assert.Equal(t, 360*time.Millisecond, e.Duration)
		assert.Equal(t, codes.OK, e.Code)
		require.NoError(t, e.Err)
		for _, call := range []retrybudget.CallInfo{e.Call, journal.retries[0].Call} {
			assert.Equal(t, rpctest.Method, call.Method)
			assert.Equal(t, "passthrough:///bufnet", call.Target)
			assert.Equal(t, retrybudget.Idempotent, call.Idempotency)
			assert.Equal(t, "mine", call.Context.Value(key{}))
		}
		require.Len(t, journal.retries, 2)
		assert.Equal(t, e.Earlier[0], journal.retries[0].Cause, "with its duration")
		assert.Len(t, status.Convert(e.Earlier[0].Err).Details(), 1, "and its details")
	})
}

func TestObserver_errorOfTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.After(time.Millisecond, rpctest.Unavailable()))
		journal := &callJournal{}
		cc := s.Dial(t, newRetrier(t, atOnce(40), retrybudget.WithObserver(journal)).DialOptions()...)

		err := rpctest.Call(t.Context(), cc)

		require.Len(t, journal.ended, 1)
		e := journal.ended[0]
		assert.Equal(t, err, e.Err, "what the caller gets")
		assert.Equal(t, 40, e.Call.Attempt)
		assert.Equal(t, 40*time.Millisecond, e.Duration)
		assert.Equal(t, 40, e.Last.Attempt)
		var numbers []int
		for _, a := range e.Earlier {
			numbers = append(numbers, a.Attempt)
		}
		assert.Equal(t, append(series(1, 15), series(26, 39)...), numbers, "a long call is told by its start and its end")
		require.Len(t, journal.refusals, 1)
		assert.Equal(t, e.Last, journal.refusals[0].Cause)
	})
}

func TestObserver_severalInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		a := newDiary("a: ")
		b, c := a, a
		b.name, c.name = "b: ", "c: "
		r := newRetrier(t, atOnce(2), retrybudget.WithObserver(a), retrybudget.WithObserver(b), retrybudget.WithObserver(c))
		// Plain dial options, so that there is something to warn of.
		cc := s.Dial(t, grpc.WithUnaryInterceptor(r.UnaryClientInterceptor()), grpc.WithDefaultServiceConfig(nativeRetries))
		require.Error(t, rpctest.Call(t.Context(), cc))
		var want []string
		for _, line := range []string{
			"warned " + rpctest.Method,
			"sent 2 after 1 Unavailable, wait 0s, guided false",
			"refused after 2 Unavailable: max_attempts, observed false",
			`ended with 2 attempts: Unavailable "max_attempts", waited 0s`,
		} {
			want = append(want, "a: "+line, "b: "+line, "c: "+line)
		}
		assert.Equal(t, want, *a.line)
	})
}

// nativeRetries is a service config in which grpc-go retries all methods of
// test.Service itself.
const nativeRetries = `{"methodConfig": [{"name": [{"service": "test.Service"}], "retryPolicy": {
	"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]
}}]}`

// Retries of grpc-go under ours multiply; that is reported once for each method
// it is true of.
func TestObserver_warnsOfNativeRetriesOnce(t *testing.T) {
	t.Parallel()
	const covered, other = "/test.Service/Other", "/other.Service/Method"
	for _, tt := range []struct {
		name     string
		options  func(*retrybudget.Retrier) []grpc.DialOption
		warnings []string
		attempts int // at the server, for two at the interceptor
	}{
		{"plain", func(r *retrybudget.Retrier) []grpc.DialOption {
			return []grpc.DialOption{grpc.WithUnaryInterceptor(r.UnaryClientInterceptor())}
		}, []string{rpctest.Method, covered}, 6},
		{"DialOptions", (*retrybudget.Retrier).DialOptions, nil, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				journal := &callJournal{}
				r := newRetrier(t, atOnce(2), retrybudget.WithObserver(journal))
				cc := s.Dial(t, append(tt.options(r), grpc.WithDefaultServiceConfig(nativeRetries))...)
				require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), "fine"), cc))
				assert.Empty(t, journal.warnings, "only failures are looked at")
				for _, method := range []string{rpctest.Method, covered, other} {
					s.Script(method, rpctest.Unavailable())
					var wg sync.WaitGroup
					for range 10 {
						wg.Go(func() { assert.Error(t, rpctest.CallMethod(t.Context(), cc, method)) })
					}
					wg.Wait()
				}
				assert.Equal(t, 10*tt.attempts, s.AttemptsOf(covered))
				assert.Equal(t, 10*2, s.AttemptsOf(other))
				var methods []string
				for _, w := range journal.warnings {
					methods = append(methods, w.Method)
					assert.Equal(t, "passthrough:///bufnet", w.Target)
					assert.Contains(t, w.Text, "retryPolicy")
				}
				assert.Equal(t, tt.warnings, methods)
			})
		})
	}
}

// onlyRetries implements one method and gets the others by embedding.
type onlyRetries struct {
	retrybudget.NopObserver
	seen *int
}

func (o onlyRetries) RetrySent(retrybudget.RetryEvent) { *o.seen++ }

func TestNopObserver_embedded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		seen := 0
		r := newRetrier(t, retrybudget.WithObserver(onlyRetries{seen: &seen}))
		cc := s.Dial(t, grpc.WithUnaryInterceptor(r.UnaryClientInterceptor()), grpc.WithDefaultServiceConfig(nativeRetries))
		s.Script("/other.Service/Method", rpctest.Unavailable())
		require.Error(t, rpctest.CallMethod(t.Context(), cc, "/other.Service/Method"))
		assert.Equal(t, 2, seen)
	})
}
