package retrybudget_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// configOf returns a Config from protobuf's text format.
func configOf(t testing.TB, text string) *retrybudgetv1.Config {
	t.Helper()
	cfg := &retrybudgetv1.Config{}
	require.NoError(t, prototext.Unmarshal([]byte(text), cfg))
	return cfg
}

// withConfig is WithConfig of a text, for methods without descriptors.
func withConfig(t testing.TB, text string) option {
	t.Helper()
	return retrybudget.WithConfig(configOf(t, "allow_unknown_methods: true "+text))
}

// configErrors returns the paths and problems that are joined in an error.
func configErrors(t *testing.T, err error) map[string]string {
	t.Helper()
	all := map[string]string{}
	var walk func(error)
	walk = func(err error) {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				walk(e)
			}
			return
		}
		var e *retrybudget.ConfigError
		if assert.ErrorAs(t, err, &e) {
			assert.Equal(t, "retrybudget: "+e.Path+" "+e.Problem, err.Error())
			assert.NotContains(t, all, e.Path)
			all[e.Path] = e.Problem
		}
	}
	walk(err)
	return all
}

// Each value is refused alone, by its place and what is wrong, by New and by the
// check, and the same for the server interceptors.
func TestWithConfig_refusesInvalidValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, config, path, problem string }{
		{"max_attempts 0", `default_policy { max_attempts: 0 }`, "default_policy.max_attempts", "0 is not in 1..2147483647: leave it out for the default"},
		{"max_attempts 2³²−1", `default_policy { max_attempts: 4294967295 }`, "default_policy.max_attempts", "4294967295 is not in 1..2147483647"},
		{"of a method", `methods { names: "/a.B/C" policy {} } methods { names: "/a.B/" policy { max_attempts: 0 } }`, "methods[1].policy.max_attempts", "0 is not in 1..2147483647: leave it out for the default"},
		{"initial 0s", `default_policy { exponential_backoff { initial {} } }`, "default_policy.exponential_backoff.initial", "0s is not positive: leave it out for the default"},
		{"initial -1s", `default_policy { exponential_backoff { initial { seconds: -1 } } }`, "default_policy.exponential_backoff.initial", "-1s is negative"},
		{"initial that is none", `default_policy { exponential_backoff { initial { seconds: 1 nanos: -1 } } }`, "default_policy.exponential_backoff.initial", "of 1 s and -1 ns is not a valid duration"},
		{"initial of 293 years", `default_policy { exponential_backoff { initial { seconds: 9223372037 } } }`, "default_policy.exponential_backoff.initial", "of 9223372037 s is longer than 292 years"},
		{"multiplier 0", `default_policy { exponential_backoff { multiplier: 0 } }`, "default_policy.exponential_backoff.multiplier", "0 is not in 1..1000000"},
		{"multiplier -1", `default_policy { exponential_backoff { multiplier: -1 } }`, "default_policy.exponential_backoff.multiplier", "-1 is not in 1..1000000"},
		{"multiplier 0.5", `default_policy { exponential_backoff { multiplier: 0.5 } }`, "default_policy.exponential_backoff.multiplier", "0.5 is not in 1..1000000"},
		{"multiplier NaN", `default_policy { exponential_backoff { multiplier: nan } }`, "default_policy.exponential_backoff.multiplier", "NaN is not in 1..1000000"},
		{"max below initial", `default_policy { exponential_backoff { initial { seconds: 2 } max { seconds: 1 } } }`, "default_policy.exponential_backoff.max", "1s is below initial 2s"},
		{"max below the default initial", `default_policy { exponential_backoff { max { nanos: 1000000 } } }`, "default_policy.exponential_backoff.max", "1ms is below initial 50ms"},
		{"jitter 6", `default_policy { exponential_backoff { jitter: 6 } }`, "default_policy.exponential_backoff.jitter", "6 is not a known kind"},
		{"constant_backoff -1s", `default_policy { constant_backoff { seconds: -1 } }`, "default_policy.constant_backoff", "-1s is negative"},
		{"OK among the codes", `default_policy { retryable_codes: [CODE_UNAVAILABLE, CODE_UNSPECIFIED] }`, "default_policy.retryable_codes[1]", "0 is OK, and a call that succeeded is not retried"},
		{"code 17", `default_policy { retryable_codes: 17 }`, "default_policy.retryable_codes[0]", "17 is not a gRPC code"},
		{"code -1", `default_policy { idempotent_codes: -1 }`, "default_policy.idempotent_codes[0]", "-1 is not a gRPC code"},
		{"idempotency 3", `default_policy { idempotency: 3 }`, "default_policy.idempotency", "3 is not a known level"},
		{"idempotency_key", `default_policy { idempotency_key: "a b" }`, "default_policy.idempotency_key", `"a b" is not a metadata key (a-z, 0-9, '-', '_', '.')`},
		{"idempotency_key of gRPC's own", `default_policy { idempotency_key: "grpc-timeout" }`, "default_policy.idempotency_key", `"grpc-timeout" is reserved by gRPC`},
		{"idempotency_key that is the attempt header", `attempt_header: "x-n" default_policy { idempotency_key: "X-N" }`, "default_policy.idempotency_key", `"x-n" is the attempt header`},
		{"per_attempt_timeout -1s", `default_policy { per_attempt_timeout { seconds: -1 } }`, "default_policy.per_attempt_timeout", "-1s is negative"},
		{"timeout -1ns", `default_policy { timeout { nanos: -1 } }`, "default_policy.timeout", "-1ns is negative"},

		{"no name", `methods { policy {} }`, "methods[0].names", "is empty: the policy would never be used"},
		{"no policy", `methods { names: "/a.B/C" }`, "methods[0].policy", "is missing: {} stands for the library's defaults"},
		{"name without slashes", `methods { names: ["/a.B/", "a.B.C"] policy {} }`, "methods[0].names[1]", `"a.B.C" is neither "/pkg.Service/Method" nor "/pkg.Service/"`},
		{"name twice", `methods { names: "/a.B/C" policy {} } methods { names: ["/a.B/", "/a.B/C"] policy {} }`, "methods[1].names[1]", `"/a.B/C" is at methods[0].names[0] too`},

		{"capacity 0", `budgets { token_bucket { capacity: 0 } }`, "budgets[0].token_bucket.capacity", "0 is not in 1..1000000000: leave it out for the default"},
		{"capacity 1000000001", `budgets { token_bucket { capacity: 1000000001 } }`, "budgets[0].token_bucket.capacity", "1000000001 is not in 1..1000000000"},
		{"ratio 0", `budgets {} budgets { token_bucket { ratio: 0 } }`, "budgets[1].token_bucket.ratio", "0 is not in 0.001..1"},
		{"ratio -0.1", `budgets { token_bucket { ratio: -0.1 } }`, "budgets[0].token_bucket.ratio", "-0.1 is not in 0.001..1"},
		{"ratio 1.001", `budgets { token_bucket { ratio: 1.001 } }`, "budgets[0].token_bucket.ratio", "1.001 is not in 0.001..1"},
		{"ratio 0.0005", `budgets { token_bucket { ratio: 0.0005 } }`, "budgets[0].token_bucket.ratio", "0.0005 is not a whole number of thousandths"},
		{"ratio NaN", `budgets { token_bucket { ratio: nan } }`, "budgets[0].token_bucket.ratio", "NaN is not in 0.001..1"},
		{"ratio Inf", `budgets { adaptive { ratio: inf } }`, "budgets[0].adaptive.ratio", "+Inf is not in 0.001..1"},
		{"initial above capacity", `budgets { token_bucket { capacity: 10 initial: 11 } }`, "budgets[0].token_bucket.initial", "11 is above capacity 10"},
		{"initial above the default capacity", `budgets { token_bucket { initial: 21 } }`, "budgets[0].token_bucket.initial", "21 is above capacity 20"},
		{"reserve 0", `budgets { adaptive { reserve: 0 } }`, "budgets[0].adaptive.reserve", "0 is not in 1..1000000: leave it out for the default"},
		{"reserve 1000001", `budgets { adaptive { reserve: 1000001 } }`, "budgets[0].adaptive.reserve", "1000001 is not in 1..1000000"},
		{"leak 0s", `budgets { adaptive { leak {} } }`, "budgets[0].adaptive.leak", "0s is not positive: leave it out for the default"},
		{"leak 999µs", `budgets { adaptive { leak { nanos: 999000 } } }`, "budgets[0].adaptive.leak", "999µs is not in 1ms..1h0m0s"},
		{"leak 3601s", `budgets { adaptive { leak { seconds: 3601 } } }`, "budgets[0].adaptive.leak", "1h0m1s is not in 1ms..1h0m0s"},
		{"no max_tokens", `budgets { throttle { token_ratio: 0.1 } }`, "budgets[0].throttle.max_tokens", "is missing"},
		{"max_tokens 0", `budgets { throttle { max_tokens: 0 token_ratio: 0.1 } }`, "budgets[0].throttle.max_tokens", "0 is not in 3..1000"},
		{"max_tokens 1", `budgets { throttle { max_tokens: 1 token_ratio: 0.1 } }`, "budgets[0].throttle.max_tokens", "1 can never grant a retry: one failure leaves no more than half of it; the least is 3"},
		{"max_tokens 2", `budgets { throttle { max_tokens: 2 token_ratio: 0.1 } }`, "budgets[0].throttle.max_tokens", "2 can never grant a retry: one failure leaves no more than half of it; the least is 3"},
		{"max_tokens 1001", `budgets { throttle { max_tokens: 1001 token_ratio: 0.1 } }`, "budgets[0].throttle.max_tokens", "1001 is not in 3..1000"},
		{"no token_ratio", `budgets { throttle { max_tokens: 10 } }`, "budgets[0].throttle.token_ratio", "is missing"},
		{"token_ratio 0", `budgets { throttle { max_tokens: 10 token_ratio: 0 } }`, "budgets[0].throttle.token_ratio", "0 is not in 0.001..1000"},
		{"token_ratio 1000.001", `budgets { throttle { max_tokens: 10 token_ratio: 1000.001 } }`, "budgets[0].throttle.token_ratio", "1000.001 is not in 0.001..1000"},
		{"scope 5", `budgets { scope: 5 }`, "budgets[0].scope", "5 is not a known scope"},
		{"scope of unlimited", `budgets { unlimited {} scope: SCOPE_PER_METHOD }`, "budgets[0].scope", "means nothing for an unlimited budget"},
		{"unlimited beside another", `budgets {} budgets { unlimited {} }`, "budgets[1].unlimited", "is of no use beside another budget"},

		{"mode 4", `mode: 4`, "mode", "4 is not a known mode"},
		{"attempt_header", `attempt_header: "a:b"`, "attempt_header", `"a:b" is not a metadata key (a-z, 0-9, '-', '_', '.')`},
		{"max_server_delay 0s", `limits { max_server_delay {} }`, "limits.max_server_delay", "0s is not positive: leave it out for the default"},
		{"max_keys 0", `limits { max_keys: 0 }`, "limits.max_keys", "0 is not in 1..1048576: leave it out for the default"},
		{"max_keys 1048577", `limits { max_keys: 1048577 }`, "limits.max_keys", "1048577 is not in 1..1048576"},
		{"replay_bytes_per_call 2³¹", `limits { replay_bytes_per_call: 2147483648 }`, "limits.replay_bytes_per_call", "2147483648 is not in 0..2147483647"},
		{"replay_bytes_total 2³¹", `limits { replay_bytes_total: 2147483648 }`, "limits.replay_bytes_total", "2147483648 is not in 0..2147483647"},
		{"hint code OK", `server { hint_codes: 0 }`, "server.hint_codes[0]", "0 is OK, and a call that succeeded is not retried"},
		{"server's header", `server { attempt_headers: ["x-ok", "x-bin"] }`, "server.attempt_headers[1]", `"x-bin" ends in -bin, which gRPC keeps for binary values`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := map[string]string{tt.path: tt.problem}
			cfg := configOf(t, "allow_unknown_methods: true "+tt.config)

			_, err := retrybudget.New(retrybudget.WithConfig(cfg))
			assert.Equal(t, want, configErrors(t, err), "New")
			assert.Equal(t, want, configErrors(t, retrybudget.CheckConfig(cfg)), "CheckConfig")
			assert.PanicsWithError(t, err.Error(), func() { retrybudget.UnaryServerInterceptor(retrybudget.WithServerConfig(cfg)) })
		})
	}
}

func TestWithConfig_namesEveryInvalidValue(t *testing.T) {
	t.Parallel()
	_, err := retrybudget.New(withConfig(t, `
		default_policy { max_attempts: 0 exponential_backoff { multiplier: 0 } }
		budgets { throttle {} } mode: 9 limits { max_keys: 0 }`))
	paths := configErrors(t, err)
	for _, path := range []string{
		"default_policy.max_attempts", "default_policy.exponential_backoff.multiplier",
		"budgets[0].throttle.max_tokens", "budgets[0].throttle.token_ratio", "mode", "limits.max_keys",
	} {
		assert.Contains(t, paths, path)
	}
	assert.Len(t, paths, 6)
}

func TestWithConfig_nilAndTwice(t *testing.T) {
	t.Parallel()
	_, err := retrybudget.New(retrybudget.WithConfig(nil))
	assert.ErrorContains(t, err, "retrybudget: Config is nil")
	assert.ErrorContains(t, retrybudget.CheckConfig(nil), "retrybudget: Config is nil")
	one := &retrybudgetv1.Config{}
	_, err = retrybudget.New(retrybudget.WithConfig(one), retrybudget.WithConfig(one))
	assert.ErrorContains(t, err, "retrybudget: WithConfig is given twice")
}

// A header that code names is refused as the file's idempotency key too.
func TestWithConfig_attemptHeaderOfCodeAsIdempotencyKey(t *testing.T) {
	t.Parallel()
	for config, at := range map[string]string{
		`default_policy { idempotency_key: "x-one" }`:                     "default_policy.idempotency_key",
		`methods { names: "/a.B/C" policy { idempotency_key: "x-one" } }`: "methods[0].policy.idempotency_key",
	} {
		_, err := retrybudget.New(withConfig(t, config), retrybudget.WithAttemptHeader("X-One"))
		assert.ErrorContains(t, err, `"x-one" is the attempt header (`+at+`)`)
	}
}

// Settings under a name that nobody calls would never be used.
func TestWithConfig_namesThatNoMethodHas(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{
		getStock: true,
		"/retrybudget.quickstart.v1.InventoryService/":        true,
		"/retrybudget.quickstart.v1.InventoryService/GetStok": false,
		"/retrybudget.quickstart.v1.InventoryServise/":        false,
		"/retrybudget.quickstart.v1.GetStockRequest/":         false, // a message
		"/retrybudget.quickstart.v1/":                         false, // a package
		rpctest.Method:                                        false, // no descriptor at all
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := &retrybudgetv1.Config{Methods: []*retrybudgetv1.MethodPolicy{{Names: []string{name}, Policy: &retrybudgetv1.Policy{}}}}
			assert.NoError(t, retrybudget.CheckConfig(cfg), "the check need not run in the program that calls")
			_, err := retrybudget.New(retrybudget.WithConfig(cfg))
			if known {
				assert.NoError(t, err)
			} else {
				problem := `"` + name + `" is not in this program: correct it, or set allow_unknown_methods`
				assert.Equal(t, map[string]string{"methods[0].names[0]": problem}, configErrors(t, err))
			}
			cfg.AllowUnknownMethods = true
			_, err = retrybudget.New(retrybudget.WithConfig(cfg))
			assert.NoError(t, err)
		})
	}
}

func TestWithConfig_acceptsTheEdgesOfWhatIsValid(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"nothing":                    ``,
		"max_attempts 1":             `default_policy { max_attempts: 1 }`,
		"max_attempts 2147483647":    `default_policy { max_attempts: 2147483647 }`,
		"multiplier 1":               `default_policy { exponential_backoff { multiplier: 1 } }`,
		"multiplier 1000000":         `default_policy { exponential_backoff { multiplier: 1000000 } }`,
		"empty exponential":          `default_policy { exponential_backoff {} }`,
		"max equal to initial":       `default_policy { exponential_backoff { initial { seconds: 2 } max { seconds: 2 } } }`,
		"initial above 1 s":          `default_policy { exponential_backoff { initial { seconds: 2 } } }`,
		"max of 292 years":           `default_policy { exponential_backoff { max { seconds: 9223372036 nanos: 999999999 } } }`,
		"constant_backoff 0s":        `default_policy { constant_backoff {} }`,
		"timeouts 0s":                `default_policy { timeout {} per_attempt_timeout {} }`,
		"codes 1 and 16":             `default_policy { retryable_codes: [CODE_CANCELLED, CODE_UNAUTHENTICATED] }`,
		"upper case key":             `default_policy { idempotency_key: "Idempotency-Key" }`,
		"a name in two levels":       `methods { names: ["/a.B/C", "/a.B/"] policy {} }`,
		"capacity 1, all of it":      `budgets { token_bucket { capacity: 1 initial: 1 ratio: 0.001 } }`,
		"capacity 1000000000":        `budgets { token_bucket { capacity: 1000000000 ratio: 1 } }`,
		"reserve 1, leak 1ms":        `budgets { adaptive { reserve: 1 leak { nanos: 1000000 } } }`,
		"leak 3600s":                 `budgets { adaptive { reserve: 1000000 leak { seconds: 3600 } } }`,
		"max_tokens 3":               `budgets { throttle { max_tokens: 3 token_ratio: 0.001 } }`,
		"max_tokens 1000":            `budgets { throttle { max_tokens: 1000 token_ratio: 1000 } }`,
		"three budgets":              `budgets {} budgets { scope: SCOPE_PER_SERVICE } budgets { scope: SCOPE_SHARED adaptive {} }`,
		"the default attempt header": `attempt_header: "grpc-previous-rpc-attempts"`,
		"no replay":                  `limits { replay_bytes_per_call: 0 replay_bytes_total: 0 }`,
		"max_keys 1":                 `limits { max_keys: 1 }`,
		"all codes hinted":           `server { hint_codes: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16] attempt_headers: "grpc-previous-rpc-attempts" }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, err := retrybudget.New(withConfig(t, config))
				require.NoError(t, err)
				assert.NoError(t, rpctest.Call(t.Context(), rpctest.New().Dial(t, r.DialOptions()...)))
				assert.NotPanics(t, func() {
					retrybudget.StreamServerInterceptor(retrybudget.WithServerConfig(configOf(t, "allow_unknown_methods: true "+config)))
				})
			})
		})
	}
}

// The message is not kept: changing it later changes nothing.
func TestWithConfig_readOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cfg := configOf(t, `default_policy { max_attempts: 2 retryable_codes: CODE_UNAVAILABLE }`)
		before := proto.CloneOf(cfg)
		cc := s.Dial(t, newRetrier(t, retrybudget.WithConfig(cfg)).DialOptions()...)
		assert.True(t, proto.Equal(before, cfg))
		cfg.DefaultPolicy.MaxAttempts = proto.Uint32(9)
		cfg.DefaultPolicy.RetryableCodes[0] = retrybudgetv1.Code_CODE_ABORTED

		require.Error(t, rpctest.Call(t.Context(), cc))

		assert.Equal(t, 2, s.Attempts(""))
	})
}

// Options of New outrank the message, whatever their order.
func TestWithConfig_codeOutranksIt(t *testing.T) {
	t.Parallel()
	const file = `
		mode: MODE_OFF attempt_header: "x-file" limits { max_server_delay { nanos: 1 } max_keys: 1 replay_bytes_per_call: 0 }
		budgets { token_bucket { capacity: 1 } } default_policy { max_attempts: 2 }`
	code := []option{
		retrybudget.WithMode(retrybudget.Enforce), retrybudget.WithAttemptHeader("x-code"),
		retrybudget.WithMaxServerDelay(time.Minute), retrybudget.WithMaxKeys(8),
		bucket(retrybudget.TokenBucketConfig{Capacity: 9, Initial: 9}), retrybudget.WithPolicy(policy{MaxAttempts: 3}),
	}
	for name, options := range map[string][]option{
		"config first": append([]option{withConfig(t, file)}, code...),
		"config last":  append(append([]option{}, code...), withConfig(t, file)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.RetryInfo(codes.Unavailable, time.Second))
				r, err := retrybudget.New(options...)
				require.NoError(t, err)
				cc := s.Dial(t, r.DialOptions()...)

				require.Error(t, rpctest.Call(t.Context(), cc))
				require.NoError(t, rpctest.CallMethod(t.Context(), cc, otherMethod))

				assert.Equal(t, [][]string{nil, {"1"}, {"2"}}, headersOf(s, rpctest.Method, "x-code"))
				var keys int
				for b := range r.Budgets() {
					keys++
					assert.InDelta(t, 9, b.Capacity, 0)
				}
				assert.Equal(t, 2, keys, "with room for two keys")
			})
		})
	}
}

// FuzzCheckConfig: no Config makes the check panic, and what it accepts, New and
// the server interceptors accept.
func FuzzCheckConfig(f *testing.F) {
	for _, text := range []string{
		``, `default_policy { max_attempts: 4 exponential_backoff { initial { nanos: 1 } multiplier: 1.5 jitter: JITTER_EQUAL } }`,
		`methods { names: "/a.B/C" policy { constant_backoff {} retryable_codes: [CODE_ABORTED] idempotency: IDEMPOTENCY_IDEMPOTENT } }`,
		`budgets { scope: SCOPE_SHARED token_bucket { capacity: 7 initial: 7 ratio: 0.015 } } budgets { adaptive { leak { seconds: 1 } } }`,
		`budgets { throttle { max_tokens: 10 token_ratio: 0.1 } } mode: MODE_OBSERVE strict_idempotency: true`,
		`budgets { unlimited {} } limits { max_keys: 3 max_server_delay { seconds: 1 } } server { hint_codes: CODE_ABORTED pushback_hint: true }`,
	} {
		raw, err := proto.Marshal(configOf(f, text))
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		cfg := &retrybudgetv1.Config{}
		if proto.Unmarshal(raw, cfg) != nil {
			return
		}
		cfg.AllowUnknownMethods = true
		checked := retrybudget.CheckConfig(cfg)
		_, err := retrybudget.New(retrybudget.WithConfig(cfg))
		if checked == nil {
			require.NoError(t, err)
			retrybudget.UnaryServerInterceptor(retrybudget.WithServerConfig(cfg))
			return
		}
		require.Error(t, err)
		for line := range strings.Lines(checked.Error()) {
			assert.Regexp(t, "^retrybudget: ", line)
		}
	})
}

func TestConfigError_isFoundInNewsError(t *testing.T) {
	t.Parallel()
	_, err := retrybudget.New(withConfig(t, `mode: 7`), retrybudget.WithMaxKeys(math.MinInt))
	var e *retrybudget.ConfigError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "mode", e.Path)
	assert.ErrorContains(t, err, "WithMaxKeys")
	assert.Equal(t, codes.Unknown, status.Code(err))
}

// Messages built in Go can hold nil where a file cannot.
func TestWithConfig_nilInside(t *testing.T) {
	t.Parallel()
	cfg := &retrybudgetv1.Config{
		Methods: []*retrybudgetv1.MethodPolicy{nil},
		Budgets: []*retrybudgetv1.Budget{
			nil,
			{Kind: &retrybudgetv1.Budget_TokenBucket{}},
			{Kind: &retrybudgetv1.Budget_Adaptive{}},
			{Kind: &retrybudgetv1.Budget_Throttle{}},
			{Kind: &retrybudgetv1.Budget_Unlimited{}},
		},
		DefaultPolicy: &retrybudgetv1.Policy{Backoff: &retrybudgetv1.Policy_ExponentialBackoff{}},
	}
	assert.Equal(t, map[string]string{
		"methods[0].names":                "is empty: the policy would never be used",
		"methods[0].policy":               "is missing: {} stands for the library's defaults",
		"budgets[3].throttle.max_tokens":  "is missing",
		"budgets[3].throttle.token_ratio": "is missing",
		"budgets[4].unlimited":            "is of no use beside another budget",
	}, configErrors(t, retrybudget.CheckConfig(cfg)))
}
