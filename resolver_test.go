package retrybudget_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// retryPolicy returns a service config with one for all methods.
func retryPolicy(attempts int, initial, most string, multiplier float64, retryable string) string {
	return fmt.Sprintf(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": %d, "initialBackoff": %q,
		"maxBackoff": %q, "backoffMultiplier": %v, "retryableStatusCodes": ["%s"]}}]}`, attempts, initial, most, multiplier, retryable)
}

var twoAttempts = retryPolicy(2, "0.1s", "1s", 2, "UNAVAILABLE")

// resolved is a connection whose resolver a test speaks for.
type resolved struct {
	*grpc.ClientConn
	r *manual.Resolver
}

func dialResolved(t *testing.T, s *rpctest.Server, opts ...grpc.DialOption) resolved {
	t.Helper()
	r := manual.NewBuilderWithScheme("told")
	cc := s.Start(t).DialTarget(t, "told:///server", append(opts, grpc.WithResolvers(r))...)
	cc.Connect()
	synctest.Wait()
	return resolved{cc, r}
}

// tell delivers a service config, and the address.
func (c resolved) tell(t *testing.T, serviceConfig string) {
	t.Helper()
	parsed := c.r.CC().ParseServiceConfig(serviceConfig)
	require.NoError(t, parsed.Err)
	c.r.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: "server"}}, ServiceConfig: parsed})
	synctest.Wait()
}

// attempts makes a call that fails and returns how often it was tried.
func (c resolved) attempts(t *testing.T, s *rpctest.Server, opts ...grpc.CallOption) int {
	t.Helper()
	before := s.Attempts("")
	require.Error(t, rpctest.Call(t.Context(), c.ClientConn, opts...))
	return s.Attempts("") - before
}

// The resolver changes the policy while the program runs. grpc-go's own loop
// stays off, and nothing is warned of.
func TestResolverPolicies_changeAtRunTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		journal := &callJournal{}
		r := newRetrier(t, retrybudget.WithResolverPolicies(), retrybudget.WithObserver(journal))
		cc := dialResolved(t, s, r.DialOptions()...)

		cc.tell(t, `{}`)
		assert.Equal(t, 3, cc.attempts(t, s), "no retryPolicy: the library's default")
		cc.tell(t, twoAttempts)
		assert.Equal(t, 2, cc.attempts(t, s))
		assert.Equal(t, 2, cc.attempts(t, s), "kept")
		cc.tell(t, retryPolicy(4, "0.1s", "1s", 2, "UNAVAILABLE"))
		assert.Equal(t, 4, cc.attempts(t, s))
		cc.tell(t, retryPolicy(4, "0.1s", "1s", 2, "ABORTED"))
		assert.Equal(t, 1, cc.attempts(t, s), "not among the codes")
		cc.tell(t, `{}`)
		assert.Equal(t, 3, cc.attempts(t, s))
		assert.Empty(t, journal.warnings)
	})
}

// Nobody asked for them: they are not used.
func TestResolverPolicies_notWithoutTheOption(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := dialResolved(t, s, newRetrier(t).DialOptions()...)
		cc.tell(t, twoAttempts)
		assert.Equal(t, 3, cc.attempts(t, s))
	})
}

func TestResolverPolicies_ofAConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := dialResolved(t, s, newRetrier(t, withConfig(t, `resolver_policies: true`)).DialOptions()...)
		cc.tell(t, twoAttempts)
		assert.Equal(t, 2, cc.attempts(t, s))
	})
}

// A call that has to wait for the resolver fails with what it delivered.
func TestResolverPolicies_callBeforeResolution(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := dialResolved(t, s, newRetrier(t, retrybudget.WithResolverPolicies()).DialOptions()...)
		done := make(chan error)
		go func() { done <- rpctest.Call(t.Context(), cc.ClientConn) }()
		synctest.Wait()
		assert.Zero(t, s.Attempts(""))

		cc.tell(t, twoAttempts)

		assert.Error(t, <-done)
		assert.Equal(t, 2, s.Attempts(""))
	})
}

// Without an answer of the resolver the next source decides.
func TestResolverPolicies_resolverFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		journal := &callJournal{}
		r := newRetrier(t, retrybudget.WithResolverPolicies(), retrybudget.WithObserver(journal))
		cc := dialResolved(t, s, r.DialOptions()...)
		cc.r.CC().ReportError(status.Error(codes.Unavailable, "no such name"))

		err := rpctest.Call(t.Context(), cc.ClientConn)

		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Len(t, journal.retries, 2)
	})
}

// A call keeps the policy that it found at its first failure.
func TestResolverPolicies_aCallKeepsItsPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := dialResolved(t, s, newRetrier(t, retrybudget.WithResolverPolicies()).DialOptions()...)
		cc.tell(t, retryPolicy(4, "1s", "1s", 1, "UNAVAILABLE"))
		time.AfterFunc(1500*ms, func() {
			parsed := cc.r.CC().ParseServiceConfig(retryPolicy(2, "0.001s", "0.001s", 1, "ABORTED"))
			cc.r.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: "server"}}, ServiceConfig: parsed})
		})

		assert.Equal(t, 4, cc.attempts(t, s))

		for _, gap := range s.Gaps("") {
			assert.GreaterOrEqual(t, gap, 800*ms)
		}
	})
}

// Budgets are not touched by a change, in contrast to grpc-go's own throttle,
// which starts full with each service config.
func TestResolverPolicies_changeRefillsNoBudget(t *testing.T) {
	t.Parallel()
	for name, budget := range map[string]retrybudget.BudgetConfig{
		"TokenBucket": retrybudget.TokenBucketConfig{Initial: 2},
		"Throttle":    retrybudget.ThrottleConfig{MaxTokens: 4, TokenRatio: 0.1},
		"Adaptive":    retrybudget.AdaptiveConfig{Reserve: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				r, err := retrybudget.New(retrybudget.WithResolverPolicies(), retrybudget.WithBudget(retrybudget.PerMethod(budget)))
				require.NoError(t, err)
				cc := dialResolved(t, s, r.DialOptions()...)
				for attempts := range 20 {
					throttling := `"retryThrottling": {"maxTokens": 1000, "tokenRatio": 1}, `
					cc.tell(t, "{"+throttling+retryPolicy(2+attempts%4, "0.1s", "1s", 2, "UNAVAILABLE")[1:])
					cc.attempts(t, s)
				}
				assert.LessOrEqual(t, s.Attempts("")-20, 2, "retries of 20 calls, each under another service config")
				for _, b := range budgetsOf(r) {
					assert.Less(t, b.Tokens, 3.0)
				}
			})
		})
	}
}

func TestResolverPolicies_waits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config string
		base   []time.Duration // each wait is this, a fifth up or down
	}{
		"growing":                 {retryPolicy(5, "0.1s", "0.35s", 2, "UNAVAILABLE"), []time.Duration{100 * ms, 200 * ms, 350 * ms, 350 * ms}},
		"max below initial":       {retryPolicy(4, "2s", "1s", 2, "UNAVAILABLE"), []time.Duration{time.Second, time.Second, time.Second}},
		"shrinking":               {retryPolicy(4, "4s", "60s", 0.5, "UNAVAILABLE"), []time.Duration{4 * time.Second, 2 * time.Second, time.Second}},
		"growing beyond all":      {retryPolicy(4, "1s", "2s", 1e300, "UNAVAILABLE"), []time.Duration{time.Second, 2 * time.Second, 2 * time.Second}},
		"shrinking below all":     {retryPolicy(4, "1s", "2s", 1e-300, "UNAVAILABLE"), []time.Duration{time.Second, 0, 0}},
		"with an OK in the codes": {retryPolicy(2, "1s", "1s", 1, `UNAVAILABLE", "OK`), []time.Duration{time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				journal := &callJournal{}
				r := newRetrier(t, retrybudget.WithResolverPolicies(), retrybudget.WithObserver(journal))
				cc := s.Dial(t, append(r.DialOptions(), grpc.WithDefaultServiceConfig(tt.config))...)

				_ = rpctest.Call(t.Context(), cc)

				require.Len(t, journal.retries, len(tt.base))
				for i, e := range journal.retries {
					assert.GreaterOrEqual(t, e.Wait, tt.base[i]-tt.base[i]/5)
					assert.LessOrEqual(t, float64(e.Wait), float64(tt.base[i])*1.2)
				}
			})
		})
	}
}

// grpc-go's limit of five attempts is the connection's to lift.
func TestResolverPolicies_attemptsAboveFive(t *testing.T) {
	t.Parallel()
	for want, more := range map[int][]grpc.DialOption{5: nil, 7: {grpc.WithMaxCallAttempts(7)}} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				options := append(newRetrier(t, retrybudget.WithResolverPolicies()).DialOptions(), more...)
				cc := s.Dial(t, append(options, grpc.WithDefaultServiceConfig(retryPolicy(9, "0.1s", "1s", 2, "UNAVAILABLE")))...)

				require.Error(t, rpctest.Call(t.Context(), cc))

				assert.Equal(t, want, s.Attempts(""))
			})
		})
	}
}

// Call options change single fields of the resolver's policy, those that it has
// and those that it does not.
func TestResolverPolicies_callOptions(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		option   grpc.CallOption
		code     codes.Code
		attempts int
	}{
		"CallMaxAttempts":          {retrybudget.CallMaxAttempts(6), codes.Unavailable, 6},
		"CallMaxAttempts 1":        {retrybudget.CallMaxAttempts(1), codes.Unavailable, 1},
		"CallDisabled":             {retrybudget.CallDisabled(), codes.Unavailable, 1},
		"CallRetryableCodes":       {retrybudget.CallRetryableCodes(codes.Internal), codes.Internal, 4},
		"CallRetryableCodes not":   {retrybudget.CallRetryableCodes(codes.Internal), codes.Unavailable, 1},
		"CallBackoff":              {retrybudget.CallBackoff(retrybudget.ConstantBackoff(0)), codes.Unavailable, 4},
		"CallIdempotency":          {retrybudget.CallIdempotency(retrybudget.NonIdempotent), codes.Unavailable, 1},
		"an option of grpc-go's":   {grpc.WaitForReady(true), codes.Unavailable, 4},
		"a code that is not there": {grpc.WaitForReady(true), codes.Aborted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Fail(tt.code, "no"))
				cc := dialResolved(t, s, newRetrier(t, retrybudget.WithResolverPolicies()).DialOptions()...)
				cc.tell(t, retryPolicy(4, "1s", "1s", 1, "UNAVAILABLE"))
				start := time.Now()

				assert.Equal(t, tt.attempts, cc.attempts(t, s, tt.option))
				if name == "CallBackoff" {
					assert.Zero(t, time.Since(start))
				}
				s.Script(rpctest.Method, rpctest.Unavailable())
				assert.Equal(t, 4, cc.attempts(t, s), "the next call is as before")
				s.Script(rpctest.Method, rpctest.Fail(tt.code, "no"))
				assert.Equal(t, tt.attempts, cc.attempts(t, s, tt.option), "and the next with the option too")
			})
		})
	}
}

func TestResolverPolicies_streams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Streams(streamMethod, failing(status.Error(codes.Unavailable, "down")))
		cc := dialResolved(t, s, newRetrier(t, retrybudget.WithResolverPolicies()).DialOptions()...)
		cc.tell(t, twoAttempts)

		assert.Error(t, streamOf(t, cc.ClientConn, streamMethod))

		assert.Equal(t, 2, s.Attempts(""))
	})
}

// A policy taken under one mode is not used under the next with that mode's
// settings.
func TestResolverPolicies_modes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		journal := &callJournal{}
		nothing := &budgetLedger{}
		r := newRetrier(t, retrybudget.WithResolverPolicies(), nothing.option(), retrybudget.WithObserver(journal))
		cc := dialResolved(t, s, r.DialOptions()...)
		cc.tell(t, twoAttempts)
		for _, tt := range []struct {
			mode     retrybudget.Mode
			attempts int
		}{{retrybudget.Enforce, 1}, {retrybudget.Observe, 2}, {retrybudget.Off, 1}, {retrybudget.Observe, 2}, {retrybudget.Enforce, 1}} {
			require.NoError(t, r.SetMode(tt.mode))
			assert.Equal(t, tt.attempts, cc.attempts(t, s), "%v", tt.mode)
		}
	})
}

// Two connections of one Retrier to one target share a key, not a policy.
func TestResolverPolicies_belongToTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		l, r := s.Start(t), newRetrier(t, retrybudget.WithResolverPolicies())
		for range 2 {
			for _, n := range []int{2, 4} {
				cc := l.Dial(t, append(r.DialOptions(), grpc.WithDefaultServiceConfig(retryPolicy(n, "0.1s", "1s", 2, "UNAVAILABLE")))...)
				before := s.Attempts("")
				require.Error(t, rpctest.Call(t.Context(), cc))
				assert.Equal(t, n, s.Attempts("")-before)
			}
		}
	})
}

// With plain dial options grpc-go would retry as well; who asked for resolver
// policies wants the service config to have one, so it is no warning.
func TestResolverPolicies_noWarningOfThem(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := rpctest.New()
			s.Script(rpctest.Method, rpctest.Unavailable())
			journal := &callJournal{}
			options := []option{retrybudget.WithObserver(journal)}
			if asked {
				options = append(options, retrybudget.WithResolverPolicies())
			}
			cc := s.Dial(t, grpc.WithUnaryInterceptor(newRetrier(t, options...).UnaryClientInterceptor()),
				grpc.WithDisableRetry(), grpc.WithDefaultServiceConfig(twoAttempts))

			require.Error(t, rpctest.Call(t.Context(), cc))

			assert.Equal(t, asked, len(journal.warnings) == 0)
		})
	}
}

// The service config's timeout ends a call, whatever policy it has.
func TestResolverPolicies_timeoutOfTheServiceConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Hang())
		config := `{"methodConfig": [{"name": [{}], "timeout": "2s", ` + retryPolicy(4, "0.1s", "1s", 2, "DEADLINE_EXCEEDED")[len(`{"methodConfig": [{"name": [{}], `):]
		cc := dialResolved(t, s, newRetrier(t, retrybudget.WithResolverPolicies()).DialOptions()...)
		cc.tell(t, config)
		start := time.Now()

		assert.Equal(t, 1, cc.attempts(t, s))
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

// Calls under way while service configs come in have one policy each, whole.
func TestResolverPolicies_changeUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := dialResolved(t, s, newRetrier(t, retrybudget.WithResolverPolicies()).DialOptions()...)
		configs := []string{retryPolicy(2, "1s", "1s", 1, "UNAVAILABLE"), retryPolicy(5, "0.1s", "0.1s", 1, "UNAVAILABLE")}
		cc.tell(t, configs[0])
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 20 {
					id := fmt.Sprint(i, " ", j)
					assert.Error(t, rpctest.Call(rpctest.WithCallID(t.Context(), id), cc.ClientConn))
					gaps := s.Gaps(id)
					if assert.NotEmpty(t, gaps) && gaps[0] >= 800*ms {
						assert.Len(t, gaps, 1)
					} else {
						assert.Len(t, gaps, 4)
					}
				}
			})
		}
		wg.Go(func() {
			for i := range 60 {
				parsed := cc.r.CC().ParseServiceConfig(configs[i%2])
				cc.r.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: "server"}}, ServiceConfig: parsed})
				<-time.After(100 * ms)
			}
		})
		wg.Wait()
	})
}
