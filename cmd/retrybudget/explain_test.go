package main

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/config"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// explainJSON returns what explain says of a method.
func explainJSON(t *testing.T, stdin string, args ...string) explained {
	t.Helper()
	got := runWith(stdin, append([]string{"explain", "-json"}, args...)...)
	require.Equal(t, exitFine, got.code, got.errors)
	var e explained
	require.NoError(t, json.Unmarshal([]byte(got.out), &e))
	return e
}

var quickstartMethods = []string{"GetStock", "SetStock", "CountStock", "ReserveStock"}

// What explain says of a method, calls of the method do: a program that has the
// descriptors and the same file makes as many attempts, of the same failures.
func TestExplain_saysWhatHappens(t *testing.T) {
	t.Parallel()
	protos := quickstartProtos(t)
	for name, text := range map[string]string{
		"nothing":       `{}`,
		"default":       `default_policy: {max_attempts: 5, retryable_codes: [INTERNAL]}`,
		"service":       `methods: [{names: [` + service + `], policy: {idempotent_codes: [UNKNOWN]}}, {names: [` + service + `SetStock], policy: {max_attempts: 1}}]`,
		"key":           `default_policy: {idempotency_key: key}`,
		"never":         `{default_policy: {idempotency: non_idempotent}, without_non_idempotent_retries: true}`,
		"strict":        `strict_idempotency: true`,
		"strict policy": `{strict_idempotency: true, default_policy: {max_attempts: 2}}`,
		"marked":        `methods: [{names: [` + service + `GetStock], policy: {idempotency: non_idempotent}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Parse([]byte(text))
			require.NoError(t, err)
			for _, m := range quickstartMethods {
				e := explainJSON(t, text, "-descriptors", protos, service+m, "-")
				for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
					name, plain, told := codeNames([]codes.Code{code}), 1, 1
					if slices.Contains(e.Retried, name) {
						plain, told = len(e.Waits)+1, len(e.Waits)+1
					}
					if slices.Contains(e.IfTold, name) {
						told = len(e.Waits) + 1
					}
					assert.Equal(t, plain, attemptsOf(t, cfg, service+m, rpctest.Fail(code, "no")), "%s, %s", m, name)
					assert.Equal(t, told, attemptsOf(t, cfg, service+m, rpctest.RetryInfo(code, time.Millisecond)), "%s, %s, told when", m, name)
				}
			}
		})
	}
}

// attemptsOf returns how many attempts a call makes whose every attempt fails.
func attemptsOf(t *testing.T, cfg *retrybudgetv1.Config, method string, fail rpctest.Step) (attempts int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err := retrybudget.New(retrybudget.WithConfig(cfg), retrybudget.WithBudget(retrybudget.Unlimited()))
		require.NoError(t, err)
		s := rpctest.New()
		s.Script(method, fail)
		_ = rpctest.CallMethod(t.Context(), s.Dial(t, r.DialOptions()...), method)
		attempts = s.Attempts("")
	})
	return attempts
}

// The policy is that of the first place that has one, and the others are named.
func TestExplain_precedence(t *testing.T) {
	t.Parallel()
	protos := quickstartProtos(t)
	resolver := writeFile(t, "resolver.json", `{"methodConfig": [
{"name": [{"service": "retrybudget.quickstart.v1.InventoryService"}], "timeout": "9s",
 "retryPolicy": {"maxAttempts": 9, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1, "retryableStatusCodes": ["ABORTED"]}},
{"name": [{"service": "retrybudget.quickstart.v1.InventoryService", "method": "SetStock"}], "timeout": "9s"}]}`)
	all := "default_policy: {}\nmethods:\n- names: [" + service + "]\n  policy: {}\n- names: [" + service + "CountStock]\n  policy: {}\n"
	option := "the method option (retrybudget.v1.retry) in " + protos
	for name, tt := range map[string]struct {
		text, method string
		files        []string
		want         []string
		notes        string
	}{
		"all of the file":     {all, "CountStock", nil, []string{"methods[1].policy (<stdin>:6)", "methods[0].policy (<stdin>:4)", "default_policy (<stdin>:1)", option, "the library's defaults"}, ""},
		"the service":         {all, "GetStock", nil, []string{"methods[0].policy (<stdin>:4)", "default_policy (<stdin>:1)", "the library's defaults"}, ""},
		"the option":          {"{}", "CountStock", nil, []string{option, "the library's defaults"}, ""},
		"nothing":             {"{}", "GetStock", nil, []string{"the library's defaults"}, ""},
		"resolver":            {"resolver_policies: true", "GetStock", []string{resolver}, []string{"methodConfig[0] (" + resolver + ":2)", "the library's defaults"}, "grpc-go's"},
		"option and resolver": {"resolver_policies: true", "CountStock", []string{resolver}, []string{option, "methodConfig[0] (" + resolver + ":2)", "the library's defaults"}, ""},
		"resolver has none":   {"resolver_policies: true", "SetStock", []string{resolver}, []string{"the library's defaults"}, ""},
		"resolver not asked":  {"{}", "GetStock", []string{resolver}, []string{"the library's defaults"}, "is not used: the configuration does not set resolver_policies"},
		"service config": {
			`{"methodConfig": [{"name": [{}], "timeout": "1s"}]}`, "GetStock", nil,
			[]string{"methodConfig[0] (<stdin>:1)", "the library's defaults"},
			"one attempt: nothing is retried",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := explainJSON(t, tt.text, append([]string{"-descriptors", protos, service + tt.method, "-"}, tt.files...)...)
			assert.Equal(t, tt.want, append([]string{e.Policy}, e.PassedOver...))
			notes := ""
			for _, n := range e.Notes {
				notes += n + "\n"
			}
			assert.Contains(t, notes, tt.notes)
			assert.Contains(t, notes, "options in the program's code")
		})
	}
}

// A delivered policy is what grpc-go makes of it: five attempts at most, no
// timeout of the library's.
func TestExplain_deliveredPolicy(t *testing.T) {
	t.Parallel()
	resolver := writeFile(t, "resolver.json", `{"methodConfig": [{"name": [{}], "timeout": "9s",
 "retryPolicy": {"maxAttempts": 9, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1, "retryableStatusCodes": ["ABORTED"]}}]}`)
	e := explainJSON(t, "resolver_policies: true", "/a.B/C", "-", resolver)
	assert.Equal(t, []string{"ABORTED"}, e.Retried)
	assert.Equal(t, waitSpan{5, "800ms", "1.2s"}, e.Waits[len(e.Waits)-1])
	for _, s := range e.Settings {
		switch s.Name {
		case "max attempts":
			assert.Equal(t, "5", s.Value)
		case "timeout":
			assert.Equal(t, settingValue{"timeout", "none", "default"}, s)
		}
	}
}

// What the calls of a method have no time for does not change which codes it
// retries.
func TestExplain_timeoutsDecideNothing(t *testing.T) {
	t.Parallel()
	e := explainJSON(t, "default_policy: {timeout: 0.000000001s, per_attempt_timeout: 0.000000001s, constant_backoff: 3600s}", "/a.B/C", "-")
	assert.Equal(t, []string{"UNAVAILABLE"}, e.Retried)
	assert.Len(t, e.Waits, 2)
	assert.Contains(t, e.Notes, "an attempt that its own timeout ends counts as DEADLINE_EXCEEDED, so it is not retried")
}

// A method option that only says how idempotent the method is is no policy, and
// outranks the standard level.
func TestExplain_optionOfIdempotencyOnly(t *testing.T) {
	t.Parallel()
	protos := quickstartProtos(t, func(f *descriptorpb.FileDescriptorProto) {
		options := f.GetService()[0].GetMethod()[0].GetOptions()
		proto.SetExtension(options, retrybudgetv1.E_Retry, &retrybudgetv1.Policy{Idempotency: retrybudgetv1.Idempotency_IDEMPOTENCY_NON_IDEMPOTENT})
	})
	e := explainJSON(t, "", "-descriptors", protos, service+"GetStock")
	assert.Equal(t, "the library's defaults", e.Policy)
	assert.Equal(t, "non-idempotent", e.Idempotency)
	assert.Empty(t, e.Retried)
	assert.Equal(t, []string{"RESOURCE_EXHAUSTED"}, e.IfTold)
}

// Every setting has the line that sets it, or says that it is a default.
func TestExplain_sources(t *testing.T) {
	t.Parallel()
	e := explainJSON(t, `default_policy:
  maxAttempts: 2
  exponential_backoff:
    initial: 1s
    max: 5s
  retryable_codes: [ABORTED]
  idempotent_codes: [INTERNAL]
  idempotency_key: key
  per_attempt_timeout: 1s
  timeout: 3s
budgets:
- {scope: shared, adaptive: {ratio: 0.2}}
- {scope: per_target, throttle: {max_tokens: 10, token_ratio: 0.5}}
`, "/a.B/C", "-")
	assert.Equal(t, []settingValue{
		{"max attempts", "2", "<stdin>:2"},
		{"backoff", "1s x2 up to 5s, jitter full", "<stdin>:3; default: multiplier, jitter"},
		{"idempotency", "idempotent", "<stdin>:8, idempotency key"},
		{"retryable codes", "ABORTED", "<stdin>:6"},
		{"idempotent codes", "INTERNAL", "<stdin>:7"},
		{"idempotency key", "key", "<stdin>:8"},
		{"per-attempt timeout", "1s", "<stdin>:9"},
		{"timeout", "3s", "<stdin>:10"},
	}, e.Settings)
	assert.Equal(t, []allowance{
		{Kind: "adaptive", Scope: "shared", Source: "budgets[0] (<stdin>:12)", Initial: 2, Ratio: 0.2},
		{Kind: "throttle", Scope: "per_target", Source: "budgets[1] (<stdin>:13)", Full: 4, Initial: 4, Ratio: 0.5},
	}, e.Budgets)
}

// The spans of waits hold what the library really waits, and no more.
func TestWaits_holdTheRealOnes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `{default_policy: {constant_backoff: 0s}}`, `{default_policy: {constant_backoff: 1.5s}}`,
		`{default_policy: {exponential_backoff: {initial: 0.1s, max: 1s, multiplier: 3, jitter: none}}}`,
		`{default_policy: {exponential_backoff: {initial: 0.1s, max: 1s, multiplier: 1.5, jitter: a6}}}`,
		`{default_policy: {exponential_backoff: {initial: 2s, jitter: equal}}}`,
		`{default_policy: {exponential_backoff: {initial: 0.1s, max: 1.1s, multiplier: 1, jitter: decorrelated}}}`,
		`{default_policy: {exponential_backoff: {initial: 0.1s, multiplier: 1}}}`,
	} {
		cfg, err := config.Parse([]byte(text))
		require.NoError(t, err)
		w := waitsOf(cfg.GetDefaultPolicy())
		seen := realWaits(t, text)
		for retry, waits := range seen {
			least, most := w.span(retry)
			shortest, longest := waits[0], waits[0]
			for _, d := range waits {
				shortest, longest = min(shortest, d), max(longest, d)
			}
			assert.GreaterOrEqual(t, shortest, least, "%s: retry %d", text, retry)
			assert.LessOrEqual(t, longest, most, "%s: retry %d", text, retry)
			width := most - least
			assert.LessOrEqual(t, shortest, least+width/4, "%s: retry %d", text, retry)
			if retry == 1 || w.jitter != retrybudgetv1.Jitter_JITTER_DECORRELATED { // later ones depend on those before
				assert.GreaterOrEqual(t, longest, most-width/4, "%s: retry %d", text, retry)
			}
		}
	}
}

// realWaits returns the waits before each retry of 100 calls that fail.
func realWaits(t *testing.T, text string) map[int][]time.Duration {
	t.Helper()
	cfg, err := config.Parse([]byte(text))
	require.NoError(t, err)
	seen := map[int][]time.Duration{}
	synctest.Test(t, func(t *testing.T) {
		o := &waitObserver{seen: seen}
		r, err := retrybudget.New(retrybudget.WithConfig(cfg), retrybudget.WithBudget(retrybudget.Unlimited()), retrybudget.WithObserver(o))
		require.NoError(t, err)
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := s.Dial(t, r.DialOptions()...)
		for range 100 {
			_ = rpctest.Call(t.Context(), cc, retrybudget.CallMaxAttempts(6))
		}
	})
	require.Len(t, seen, 5)
	return seen
}

type waitObserver struct {
	retrybudget.NopObserver

	seen map[int][]time.Duration
}

// RetrySent notes the wait; calls come one after the other.
func (o *waitObserver) RetrySent(e retrybudget.RetryEvent) {
	o.seen[e.Call.Attempt-1] = append(o.seen[e.Call.Attempt-1], e.Wait)
}
