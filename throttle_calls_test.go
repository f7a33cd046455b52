package retrybudget_test

import (
	"fmt"
	"testing"
	"testing/synctest"

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

// sharedThrottle makes the throttle of gRFC A6's examples and the option that
// every call asks it.
func sharedThrottle(t testing.TB) (*retrybudget.Throttle, retrybudget.Option) {
	t.Helper()
	b := newThrottle(t, 10, 0.1)
	return b, retrybudget.WithBudget(retrybudget.Shared(b))
}

func TestThrottle_endsRetriesInAnOutageAndComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		b, budget := sharedThrottle(t)
		cc := s.Dial(t, newRetrier(t, budget, atOnce(4)).DialOptions()...)

		s.Script(rpctest.Method, rpctest.Unavailable())
		assert.Equal(t, 4, calls(t, s, cc, 1), "10 − 4 is more than half")
		assert.Equal(t, 999, calls(t, s, cc, 999))
		assert.Equal(t, int64(0), tokensIn(b))

		s.Script(rpctest.Method, rpctest.OK())
		calls(t, s, cc, 60)
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		assert.Equal(t, 1, calls(t, s, cc, 1), "60 × 0.1 − 1 is exactly half")
		s.Script(rpctest.Method, rpctest.OK())
		calls(t, s, cc, 11)
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		assert.Equal(t, 2, calls(t, s, cc, 1), "5 + 11 × 0.1 − 1 is more")
		assert.Equal(t, int64(5200), tokensIn(b), "and a retry that succeeds is a success")
	})
}

// What a call's attempts do to the token count.
func TestThrottle_countsAttempts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		script   []rpctest.Step
		attempts int
		left     int64 // from 8 tokens
	}{
		{"OK", []rpctest.Step{rpctest.OK()}, 1, 8100},
		{"OK at last", []rpctest.Step{rpctest.Unavailable(), rpctest.Unavailable(), rpctest.OK()}, 3, 6100},
		{"never OK", []rpctest.Step{rpctest.Unavailable()}, 3, 5000},
		{"an answer is neither", []rpctest.Step{rpctest.Fail(codes.NotFound, "none")}, 1, 8000},
		{"an answer to a retry is neither", []rpctest.Step{rpctest.Unavailable(), rpctest.Fail(codes.NotFound, "none")}, 2, 7000},
		{"a veto is a failure", []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "-1")}, 1, 7000},
		{"also with a code that is not retried", []rpctest.Step{rpctest.Pushback(rpctest.Fail(codes.NotFound, "none"), "-1")}, 1, 7000},
		{"a pushback that allows is one failure", []rpctest.Step{rpctest.Pushback(rpctest.Unavailable(), "5"), rpctest.OK()}, 2, 7100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.script...)
				b, budget := sharedThrottle(t)
				fail(b, 2)
				cc := s.Dial(t, newRetrier(t, budget, atOnce(3)).DialOptions()...)
				assert.Equal(t, tt.attempts, calls(t, s, cc, 1))
				assert.Equal(t, tt.left, tokensIn(b))
			})
		})
	}
}

// grpc-go starts a throttle anew with each service config that the resolver
// delivers, so that a name server which answers in the middle of an outage
// reopens the gates. Ours knows nothing of resolvers.
func TestThrottle_resolverUpdateRefillsNothing(t *testing.T) {
	t.Parallel()
	const config = `{
		"methodConfig": [{"name": [{}], "retryPolicy": {
			"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
			"backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}],
		"retryThrottling": {"maxTokens": %d, "tokenRatio": 0.1}}`
	for name, ours := range map[string]bool{"ours": true, "grpc-go's": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable())
				b, budget := sharedThrottle(t)
				names := manual.NewBuilderWithScheme("names")
				options := []grpc.DialOption{grpc.WithResolvers(names)}
				if ours {
					options = append(options, newRetrier(t, budget, atOnce(5)).DialOptions()...)
				}
				cc := s.Start(t).DialTarget(t, "names:///service", options...)
				// Each configuration differs a little, or grpc-go would keep the old one.
				update := func(maxTokens int) {
					names.UpdateState(resolver.State{
						Addresses:     []resolver.Address{{Addr: "bufnet"}},
						ServiceConfig: names.CC().ParseServiceConfig(fmt.Sprintf(config, maxTokens)),
					})
				}
				names.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "bufnet"}}})
				require.Error(t, rpctest.Call(t.Context(), cc))
				update(10)
				calls(t, s, cc, 100)
				assert.Equal(t, 10, calls(t, s, cc, 10), "drained")

				update(11)
				synctest.Wait()

				more := calls(t, s, cc, 10) - 10
				if ours {
					assert.Zero(t, more)
					assert.Equal(t, int64(0), tokensIn(b))
				} else {
					assert.Positive(t, more, "grpc-go does not do what this test is about any more")
				}
			})
		})
	}
}

// A throttle belongs to whom the factory gives it: here, to all connections to
// one target.
func TestThrottle_sharedByConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		r := newRetrier(t, atOnce(4), retrybudget.WithBudget(retrybudget.PerTarget(retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1})))
		l := s.Start(t)
		one, same := l.Dial(t, r.DialOptions()...), l.Dial(t, r.DialOptions()...)
		other := l.DialTarget(t, "passthrough:///other", r.DialOptions()...)
		assert.Equal(t, 4, calls(t, s, one, 1))
		assert.Equal(t, 1, calls(t, s, same, 1))
		assert.Equal(t, 4, calls(t, s, other, 1))
	})
}

func TestThrottle_manySmallClients(t *testing.T) {
	t.Parallel()
	const clients = 1000
	_, shared := sharedThrottle(t)
	for _, tt := range []struct {
		name     string
		budget   func() retrybudget.Option
		attempts int
	}{
		{"each its own", func() retrybudget.Option {
			return retrybudget.WithBudget(retrybudget.PerTarget(retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1}))
		}, 4 * clients},
		{"one shared", func() retrybudget.Option { return shared }, clients + 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := rpctest.New()
			s.Script(rpctest.Method, rpctest.Unavailable())
			cc := s.Dial(t)
			for range clients {
				err := callThrough(t.Context(), newRetrier(t, atOnce(4), tt.budget()), cc)
				assert.Equal(t, codes.Unavailable, status.Code(err))
			}
			assert.Equal(t, tt.attempts, s.Attempts(""))
		})
	}
}
