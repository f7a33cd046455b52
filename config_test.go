package retrybudget_test

import (
	"context"
	"math"
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

type (
	option = retrybudget.Option
	policy = retrybudget.Policy
)

func bucket(cfg retrybudget.TokenBucketConfig) option {
	return retrybudget.WithBudget(retrybudget.PerMethod(cfg))
}

func withExponential(b retrybudget.ExponentialBackoff) option {
	return retrybudget.WithPolicy(policy{Backoff: b})
}

func TestNew_refusesInvalidValues(t *testing.T) {
	t.Parallel()
	var nilExponential *retrybudget.ExponentialBackoff
	var nilConstant *retrybudget.ConstantBackoff
	tests := []struct {
		name string
		opt  option
		want []string // option, field and value
	}{
		{"nil option", nil, []string{"option 0", "nil"}},

		{"MaxAttempts -1", retrybudget.WithPolicy(policy{MaxAttempts: -1}), []string{"WithPolicy.MaxAttempts", "-1"}},
		{"PerAttemptTimeout -1ns", retrybudget.WithPolicy(policy{PerAttemptTimeout: -1}), []string{"WithPolicy.PerAttemptTimeout", "-1ns"}},
		{"Timeout -1s", retrybudget.WithPolicy(policy{Timeout: -time.Second}), []string{"WithPolicy.Timeout", "-1s"}},
		{"Idempotency 3", retrybudget.WithPolicy(policy{Idempotency: 3}), []string{"WithPolicy.Idempotency", "3"}},
		{"no RetryableCodes", retrybudget.WithPolicy(policy{RetryableCodes: []codes.Code{}}), []string{"WithPolicy.RetryableCodes", "empty"}},
		{"RetryableCodes OK", retrybudget.WithPolicy(policy{RetryableCodes: []codes.Code{codes.Unavailable, codes.OK}}), []string{"WithPolicy.RetryableCodes", "OK"}},
		{"RetryableCodes 17", retrybudget.WithPolicy(policy{RetryableCodes: []codes.Code{17}}), []string{"WithPolicy.RetryableCodes", "17"}},
		{"RetryableCodes 4294967295", retrybudget.WithPolicy(policy{RetryableCodes: []codes.Code{math.MaxUint32}}), []string{"WithPolicy.RetryableCodes", "4294967295"}},
		{"IdempotentCodes OK", retrybudget.WithPolicy(policy{IdempotentCodes: []codes.Code{codes.OK}}), []string{"WithPolicy.IdempotentCodes", "OK"}},
		{"IdempotentCodes 17", retrybudget.WithPolicy(policy{IdempotentCodes: []codes.Code{17}}), []string{"WithPolicy.IdempotentCodes", "17"}},
		{"both backoffs", retrybudget.WithPolicy(policy{Backoff: exact(1, 1), BackoffFunc: func(context.Context, uint) time.Duration { return 0 }}), []string{"WithPolicy.Backoff", "WithPolicy.BackoffFunc"}},

		{"key with a space", retrybudget.WithPolicy(policy{IdempotencyKey: "a b"}), []string{"WithPolicy.IdempotencyKey", `"a b"`}},
		{"key of a pseudo header", retrybudget.WithPolicy(policy{IdempotencyKey: ":path"}), []string{"WithPolicy.IdempotencyKey", `":path"`}},
		{"binary key", retrybudget.WithPolicy(policy{IdempotencyKey: "key-bin"}), []string{"WithPolicy.IdempotencyKey", `"key-bin"`}},
		{"key of gRPC's own", retrybudget.WithPolicy(policy{IdempotencyKey: "grpc-timeout"}), []string{"WithPolicy.IdempotencyKey", `"grpc-timeout"`}},
		{"key of the transport's", retrybudget.WithPolicy(policy{IdempotencyKey: "Content-Type"}), []string{"WithPolicy.IdempotencyKey", `"content-type"`}},
		{"key that is the attempt header", retrybudget.WithPolicy(policy{IdempotencyKey: attemptHeader}), []string{"WithPolicy.IdempotencyKey", attemptHeader}},

		{"Initial -1s", withExponential(retrybudget.ExponentialBackoff{Initial: -time.Second}), []string{"WithPolicy.Backoff.Initial", "-1s"}},
		{"Multiplier -1", withExponential(retrybudget.ExponentialBackoff{Multiplier: -1}), []string{"WithPolicy.Backoff.Multiplier", "-1"}},
		{"Multiplier 0.5", withExponential(retrybudget.ExponentialBackoff{Multiplier: 0.5}), []string{"WithPolicy.Backoff.Multiplier", "0.5"}},
		{"Multiplier NaN", withExponential(retrybudget.ExponentialBackoff{Multiplier: math.NaN()}), []string{"WithPolicy.Backoff.Multiplier", "NaN"}},
		{"Multiplier +Inf", withExponential(retrybudget.ExponentialBackoff{Multiplier: math.Inf(1)}), []string{"WithPolicy.Backoff.Multiplier", "+Inf"}},
		{"Multiplier 1000001", withExponential(retrybudget.ExponentialBackoff{Multiplier: 1_000_001}), []string{"WithPolicy.Backoff.Multiplier", "1.000001e+06"}},
		{"Max -1s", withExponential(retrybudget.ExponentialBackoff{Max: -time.Second}), []string{"WithPolicy.Backoff.Max", "-1s"}},
		{"Max below Initial", withExponential(retrybudget.ExponentialBackoff{Initial: time.Second, Max: time.Millisecond}), []string{"WithPolicy.Backoff.Max", "1ms", "Initial", "1s"}},
		{"Max below the default Initial", withExponential(retrybudget.ExponentialBackoff{Max: 49 * ms}), []string{"WithPolicy.Backoff.Max", "49ms", "Initial", "50ms"}},
		{"Jitter 5", withExponential(retrybudget.ExponentialBackoff{Jitter: 5}), []string{"WithPolicy.Backoff.Jitter", "5"}},
		{"pointer to Initial -1s", retrybudget.WithPolicy(policy{Backoff: &retrybudget.ExponentialBackoff{Initial: -time.Second}}), []string{"WithPolicy.Backoff.Initial", "-1s"}},
		{"nil *ExponentialBackoff", retrybudget.WithPolicy(policy{Backoff: nilExponential}), []string{"WithPolicy.Backoff", "nil"}},
		{"ConstantBackoff -1s", retrybudget.WithPolicy(policy{Backoff: retrybudget.ConstantBackoff(-time.Second)}), []string{"WithPolicy.Backoff", "-1s"}},
		{"nil *ConstantBackoff", retrybudget.WithPolicy(policy{Backoff: nilConstant}), []string{"WithPolicy.Backoff", "nil"}},

		{"method without a name", retrybudget.WithMethodPolicy("", policy{}), []string{"WithMethodPolicy", `""`}},
		{"method without slashes", retrybudget.WithMethodPolicy("pkg.Service.Method", policy{}), []string{"WithMethodPolicy", `"pkg.Service.Method"`}},
		{"method without a leading slash", retrybudget.WithMethodPolicy("pkg.Service/Method", policy{}), []string{"WithMethodPolicy", `"pkg.Service/Method"`}},
		{"service without a trailing slash", retrybudget.WithMethodPolicy("/pkg.Service", policy{}), []string{"WithMethodPolicy", `"/pkg.Service"`}},
		{"method without a service", retrybudget.WithMethodPolicy("//Method", policy{}), []string{"WithMethodPolicy", `"//Method"`}},
		{"method with three slashes", retrybudget.WithMethodPolicy("/pkg.Service/Method/", policy{}), []string{"WithMethodPolicy", `"/pkg.Service/Method/"`}},
		{"method that the service does not have", retrybudget.WithMethodPolicy("/retrybudget.quickstart.v1.InventoryService/GetStok", policy{}), []string{"WithMethodPolicy", "/retrybudget.quickstart.v1.InventoryService/GetStok"}},
		{"method's policy", retrybudget.WithMethodPolicy("/pkg.Service/Method", policy{MaxAttempts: -2}), []string{"WithMethodPolicy", "/pkg.Service/Method", "MaxAttempts", "-2"}},
		{"method's backoff", retrybudget.WithMethodPolicy("/pkg.Service/", policy{Backoff: retrybudget.ExponentialBackoff{Multiplier: 0.5}}), []string{"WithMethodPolicy", "/pkg.Service/", "Backoff.Multiplier", "0.5"}},

		{"nil budget factory", retrybudget.WithBudget(nil), []string{"WithBudget", "nil"}},
		{"factory of nil", retrybudget.WithBudget(retrybudget.Shared(nil)), []string{"WithBudget", "nil Budget"}},
		{"nil budget config", retrybudget.WithBudget(retrybudget.PerMethod(nil)), []string{"WithBudget", "BudgetConfig is nil"}},
		{"Both of nil", retrybudget.WithBudget(retrybudget.Both(nil, retrybudget.Unlimited())), []string{"WithBudget", "Both", "nil"}},
		{"Capacity -1", bucket(retrybudget.TokenBucketConfig{Capacity: -1}), []string{"WithBudget", "TokenBucketConfig.Capacity", "-1"}},
		{"Ratio NaN", bucket(retrybudget.TokenBucketConfig{Ratio: math.NaN()}), []string{"WithBudget", "TokenBucketConfig.Ratio", "NaN"}},
		{"Ratio 0.0005", bucket(retrybudget.TokenBucketConfig{Ratio: 0.0005}), []string{"WithBudget", "TokenBucketConfig.Ratio", "0.0005"}},
		{"Initial above Capacity", bucket(retrybudget.TokenBucketConfig{Capacity: 10, Initial: 11}), []string{"WithBudget", "TokenBucketConfig.Initial", "11", "10"}},

		{"nil classifier", retrybudget.WithClassifier(nil), []string{"WithClassifier", "nil"}},
		{"nil success function", retrybudget.WithSuccess(nil), []string{"WithSuccess", "nil"}},
		{"nil observer", retrybudget.WithObserver(nil), []string{"WithObserver", "nil"}},
		{"no attempt header", retrybudget.WithAttemptHeader(""), []string{"WithAttemptHeader", `""`}},
		{"attempt header with a colon", retrybudget.WithAttemptHeader("a:b"), []string{"WithAttemptHeader", `"a:b"`}},
		{"binary attempt header", retrybudget.WithAttemptHeader("x-bin"), []string{"WithAttemptHeader", `"x-bin"`}},
		{"attempt header of gRPC's own", retrybudget.WithAttemptHeader("grpc-status"), []string{"WithAttemptHeader", `"grpc-status"`}},
		{"attempt header of the transport's", retrybudget.WithAttemptHeader("te"), []string{"WithAttemptHeader", `"te"`}},
		{"MaxServerDelay 0", retrybudget.WithMaxServerDelay(0), []string{"WithMaxServerDelay", "0s"}},
		{"MaxServerDelay -1s", retrybudget.WithMaxServerDelay(-time.Second), []string{"WithMaxServerDelay", "-1s"}},
		{"MaxKeys 0", retrybudget.WithMaxKeys(0), []string{"WithMaxKeys", "0"}},
		{"MaxKeys -1", retrybudget.WithMaxKeys(-1), []string{"WithMaxKeys", "-1"}},
		{"MaxKeys 1048577", retrybudget.WithMaxKeys(1<<20 + 1), []string{"WithMaxKeys", "1048577"}},
		{"replay of -1 a call", retrybudget.WithReplayLimits(-1, 1), []string{"WithReplayLimits", "perCall", "-1"}},
		{"replay of -1 in all", retrybudget.WithReplayLimits(1, -1), []string{"WithReplayLimits", "total", "-1"}},
		{"Mode 3", retrybudget.WithMode(3), []string{"WithMode", "3"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			r, err := retrybudget.New(test.opt)

			require.Error(t, err)
			assert.Nil(t, r)
			assert.Regexp(t, "^retrybudget: ", err.Error())
			for _, part := range test.want {
				assert.ErrorContains(t, err, part)
			}
			assert.PanicsWithError(t, err.Error(), func() { retrybudget.UnaryClientInterceptor(test.opt) })
		})
	}
}

func TestNew_refusesOptionsThatContradict(t *testing.T) {
	t.Parallel()
	_, err := retrybudget.New(
		retrybudget.WithMethodPolicy("/pkg.Service/Method", policy{}),
		retrybudget.WithMethodPolicy("/pkg.Service/Method", policy{MaxAttempts: 2}))
	assert.ErrorContains(t, err, `WithMethodPolicy names "/pkg.Service/Method" twice`)

	_, err = retrybudget.New(retrybudget.WithAttemptHeader("X-One"), retrybudget.WithPolicy(policy{IdempotencyKey: "x-one"}))
	require.Error(t, err, "the attempt's number would replace the key")
	assert.ErrorContains(t, err, "x-one")
}

func TestNew_namesEveryInvalidValue(t *testing.T) {
	t.Parallel()
	_, err := retrybudget.New(
		retrybudget.WithPolicy(policy{MaxAttempts: -1, Timeout: -1}),
		retrybudget.WithMaxKeys(0),
		retrybudget.WithMode(9))
	for _, part := range []string{"MaxAttempts", "Timeout", "WithMaxKeys", "WithMode"} {
		assert.ErrorContains(t, err, part)
	}
}

func TestNew_acceptsTheEdgesOfWhatIsValid(t *testing.T) {
	t.Parallel()
	plain := func(context.Context, uint) time.Duration { return 0 }
	for name, opt := range map[string]option{
		"zero policy":            retrybudget.WithPolicy(policy{}),
		"MaxAttempts 1":          retrybudget.WithPolicy(policy{MaxAttempts: 1}),
		"MaxAttempts 1000":       retrybudget.WithPolicy(policy{MaxAttempts: 1000}),
		"MaxAttempts MaxInt":     retrybudget.WithPolicy(policy{MaxAttempts: math.MaxInt}),
		"code 1 and 16":          retrybudget.WithPolicy(policy{RetryableCodes: []codes.Code{codes.Canceled, codes.Unauthenticated}}),
		"no IdempotentCodes":     retrybudget.WithPolicy(policy{IdempotentCodes: []codes.Code{}}),
		"NonIdempotent":          retrybudget.WithPolicy(policy{Idempotency: retrybudget.NonIdempotent}),
		"upper case key":         retrybudget.WithPolicy(policy{IdempotencyKey: "Idempotency-Key"}),
		"timeouts":               retrybudget.WithPolicy(policy{PerAttemptTimeout: 2, Timeout: 1}),
		"plain backoff":          retrybudget.WithPolicy(policy{BackoffFunc: plain}),
		"constant backoff of 0":  retrybudget.WithPolicy(policy{Backoff: retrybudget.ConstantBackoff(0)}),
		"Multiplier 1":           withExponential(retrybudget.ExponentialBackoff{Multiplier: 1}),
		"Multiplier 1000000":     withExponential(retrybudget.ExponentialBackoff{Multiplier: 1_000_000}),
		"Max equal to Initial":   withExponential(retrybudget.ExponentialBackoff{Initial: time.Second, Max: time.Second}),
		"Initial above 1 s":      withExponential(retrybudget.ExponentialBackoff{Initial: time.Minute}),
		"no Max":                 withExponential(retrybudget.ExponentialBackoff{Max: retrybudget.NoMaxBackoff}),
		"decorrelated":           withExponential(retrybudget.ExponentialBackoff{Jitter: retrybudget.JitterDecorrelated}),
		"method":                 retrybudget.WithMethodPolicy("/pkg.Service/Method", policy{}),
		"service":                retrybudget.WithMethodPolicy("/pkg.Service/", policy{}),
		"MaxServerDelay 1ns":     retrybudget.WithMaxServerDelay(1),
		"MaxKeys 1":              retrybudget.WithMaxKeys(1),
		"MaxKeys 1048576":        retrybudget.WithMaxKeys(1 << 20),
		"no replay":              retrybudget.WithReplayLimits(0, 0),
		"Off":                    retrybudget.WithMode(retrybudget.Off),
		"default attempt header": retrybudget.WithAttemptHeader(attemptHeader),
		"strict":                 retrybudget.WithStrictIdempotency(),
		"Capacity 1, Initial 1":  bucket(retrybudget.TokenBucketConfig{Capacity: 1, Initial: 1}),
		"Ratio 0.001":            bucket(retrybudget.TokenBucketConfig{Ratio: 0.001}),
		"Ratio 1":                bucket(retrybudget.TokenBucketConfig{Ratio: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, err := retrybudget.New(opt)
				require.NoError(t, err)
				assert.NoError(t, rpctest.Call(t.Context(), rpctest.New().Dial(t, r.DialOptions()...)))
			})
		})
	}
}

func TestCallOptions_invalidOneFailsItsCallAlone(t *testing.T) {
	t.Parallel()
	var nilExponential *retrybudget.ExponentialBackoff
	tests := []struct {
		name string
		opt  grpc.CallOption
		want []string
	}{
		{"CallMaxAttempts -1", retrybudget.CallMaxAttempts(-1), []string{"CallMaxAttempts", "-1"}},
		{"no CallRetryableCodes", retrybudget.CallRetryableCodes(), []string{"CallRetryableCodes", "empty"}},
		{"CallRetryableCodes OK", retrybudget.CallRetryableCodes(codes.OK), []string{"CallRetryableCodes", "OK"}},
		{"CallRetryableCodes 17", retrybudget.CallRetryableCodes(17), []string{"CallRetryableCodes", "17"}},
		{"CallBackoff of Multiplier 0.5", retrybudget.CallBackoff(retrybudget.ExponentialBackoff{Multiplier: 0.5}), []string{"CallBackoff.", "Multiplier", "0.5"}},
		{"CallBackoff -1s", retrybudget.CallBackoff(retrybudget.ConstantBackoff(-time.Second)), []string{"CallBackoff", "-1s"}},
		{"CallBackoff of a nil pointer", retrybudget.CallBackoff(nilExponential), []string{"CallBackoff", "nil"}},
		{"CallPerAttemptTimeout -1s", retrybudget.CallPerAttemptTimeout(-time.Second), []string{"CallPerAttemptTimeout", "-1s"}},
		{"CallIdempotency 3", retrybudget.CallIdempotency(3), []string{"CallIdempotency", "3"}},
		{"CallIdempotencyKey", retrybudget.CallIdempotencyKey("a b"), []string{"CallIdempotencyKey", `"a b"`}},
		{"CallIdempotencyKey of the attempt header", retrybudget.CallIdempotencyKey(attemptHeader), []string{"CallIdempotencyKey", attemptHeader}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				journal := &callJournal{}
				cc := s.Dial(t, newRetrier(t, retrybudget.WithObserver(journal)).DialOptions()...)

				err := rpctest.Call(t.Context(), cc, retrybudget.CallMaxAttempts(2), test.opt, retrybudget.CallIdempotency(retrybudget.Idempotent))

				assert.Equal(t, codes.Internal, status.Code(err))
				for _, part := range append(test.want, "retrybudget: ") {
					assert.ErrorContains(t, err, part)
				}
				assert.Zero(t, s.Attempts(""), "never half used")
				assert.NoError(t, rpctest.Call(t.Context(), cc))
				assert.Equal(t, 1, s.Attempts(""))
			})
		})
	}
}

func TestCallOptions_nilMeansTheDefaultBackoff(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]grpc.CallOption{
		"CallBackoff": retrybudget.CallBackoff(nil), "CallBackoffFunc": retrybudget.CallBackoffFunc(nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
				cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(policy{Backoff: exact(time.Hour, 1)})).DialOptions()...)

				require.NoError(t, rpctest.Call(t.Context(), cc, opt))

				assert.LessOrEqual(t, s.Gaps("")[0], 50*ms)
			})
		})
	}
}
