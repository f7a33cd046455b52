package serviceconfig_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	_ "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1" // the README's example names its service
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
	"github.com/retrybudget/retrybudget/serviceconfig"
)

const (
	getStock     = "/retrybudget.quickstart.v1.InventoryService/GetStock"
	reserveStock = "/retrybudget.quickstart.v1.InventoryService/ReserveStock"
)

// attempts makes a call that fails and returns how often it was tried.
func attempts(t *testing.T, method string, code codes.Code, opts ...grpc.DialOption) int {
	t.Helper()
	s := rpctest.New()
	s.Script(method, rpctest.Fail(code, "no"))
	require.Error(t, rpctest.CallMethod(t.Context(), s.Dial(t, opts...), method))
	return s.Attempts("")
}

// ours returns the dial options of a Retrier with a configuration and without a
// budget.
func ours(t *testing.T, cfg *retrybudgetv1.Config) []grpc.DialOption {
	t.Helper()
	r, err := retrybudget.New(retrybudget.WithConfig(cfg), retrybudget.WithBudget(retrybudget.Unlimited()))
	require.NoError(t, err)
	return r.DialOptions()
}

// The example in the README is a service config that works.
func TestReadme_serviceConfig(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(readme), "\n```json\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	cfg, err := serviceconfig.Parse([]byte(example))
	require.NoError(t, err)
	r, err := retrybudget.New(retrybudget.WithConfig(cfg))
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, 4, attempts(t, getStock, codes.Unavailable, r.DialOptions()...))
		assert.Equal(t, 1, attempts(t, reserveStock, codes.Unavailable, r.DialOptions()...))
	})
}

// A service config means to this library what it means to gRPC: a method that an
// entry names is tried as often by both, whatever it fails with.
func TestParse_meansWhatItMeansToGRPC(t *testing.T) {
	t.Parallel()
	policy := func(attempts int, codes string) string {
		return fmt.Sprintf(`"retryPolicy": {"maxAttempts": %d, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [%s]}`, attempts, codes)
	}
	const service, method = `{"service": "retrybudget.quickstart.v1.InventoryService"}`, `{"service": "retrybudget.quickstart.v1.InventoryService", "method": "GetStock"}`
	for name, config := range map[string]string{
		"default":                   `{"methodConfig": [{"name": [{}], ` + policy(3, `"UNAVAILABLE"`) + `}]}`,
		"service":                   `{"methodConfig": [{"name": [` + service + `], ` + policy(4, `"UNAVAILABLE", 10`) + `}]}`,
		"method and service":        `{"methodConfig": [{"name": [` + service + `], ` + policy(4, `14`) + `}, {"name": [` + method + `], ` + policy(2, `"INTERNAL"`) + `}]}`,
		"method without retries":    `{"methodConfig": [{"name": [` + service + `], ` + policy(4, `14`) + `}, {"name": [` + method + `]}]}`,
		"default without retries":   `{"methodConfig": [{"name": [{}], "waitForReady": true}]}`,
		"timeout alone":             `{"methodConfig": [{"name": [{}], "timeout": "10s"}]}`,
		"timeout and retries":       `{"methodConfig": [{"name": [{}], "timeout": "10s", ` + policy(5, `"UNAVAILABLE", "ABORTED"`) + `}]}`,
		"more than five":            `{"methodConfig": [{"name": [{}], ` + policy(9, `14`) + `}]}`,
		"all codes but DEADLINE...": `{"methodConfig": [{"name": [{}], ` + policy(2, `1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16`) + `}]}`,
	} {
		for _, called := range []string{getStock, reserveStock} {
			t.Run(name+called, func(t *testing.T) {
				t.Parallel()
				cfg, err := serviceconfig.Parse([]byte(config), serviceconfig.CapAttempts())
				require.NoError(t, err)
				synctest.Test(t, func(t *testing.T) {
					for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
						native := attempts(t, called, code, grpc.WithDefaultServiceConfig(config))
						assert.Equal(t, native, attempts(t, called, code, ours(t, cfg)...), "%v", code)
					}
				})
			})
		}
	}
}

// What is exported drives clients that use gRPC's own retries.
func TestMarshal_drivesGRPC(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"default":    `default_policy { max_attempts: 4 }`,
		"method":     `methods { names: "/retrybudget.quickstart.v1.InventoryService/GetStock" policy { max_attempts: 5 retryable_codes: [CODE_ABORTED, CODE_INTERNAL] } } default_policy { max_attempts: 1 }`,
		"idempotent": `default_policy { idempotency: IDEMPOTENCY_IDEMPOTENT constant_backoff { nanos: 1 } }`,
		"neither":    `default_policy { idempotency: IDEMPOTENCY_NON_IDEMPOTENT }`,
		"throttling": `default_policy { max_attempts: 4 } budgets { throttle { max_tokens: 1000 token_ratio: 1 } scope: SCOPE_PER_TARGET }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := textOf(t, text)
			data, _, err := serviceconfig.Marshal(cfg)
			require.NoError(t, err)
			method := reserveStock // nothing is declared of it
			if name == "method" {
				method = getStock
			}
			synctest.Test(t, func(t *testing.T) {
				for _, code := range []codes.Code{codes.Unavailable, codes.Aborted, codes.Internal, codes.ResourceExhausted, codes.NotFound} {
					assert.Equal(t, attempts(t, method, code, ours(t, cfg)...), attempts(t, method, code, grpc.WithDefaultServiceConfig(string(data))), "%v", code)
				}
			})
		})
	}
}

// A service's name that no method has is found when the Retrier is made.
func TestParse_serviceThatNoMethodHas(t *testing.T) {
	t.Parallel()
	cfg, err := serviceconfig.Parse([]byte(`{"methodConfig": [{"name": [{"service": "retrybudget.quickstart.v1.Inventory"}], ` + retry + `}]}`))
	require.NoError(t, err)
	_, err = retrybudget.New(retrybudget.WithConfig(cfg))
	assert.ErrorContains(t, err, `methods[0].names[0] "/retrybudget.quickstart.v1.Inventory/" is not in this program`)
}

// FuzzParse: no text makes Parse panic; what it accepts New accepts, and it comes
// back the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"methodConfig": [{"name": [{}], ` + retry + `}]}`,
		`{"methodConfig": [{"name": [{"service": "a.B", "method": "C"}, {"service": "a.B"}], "timeout": "1.5s"}, {"name": [{}]}]}`,
		`{"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.5466}, "loadBalancingConfig": [{"round_robin": {}}]}`,
		`{"methodConfig": [{"name": [{}], "hedgingPolicy": null}], "x": [[{"retry": 1}]]}`, "{\"a\": 1,\n}", `[`, `{"\ud800": "\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := serviceconfig.Parse(data)
		if err != nil {
			assert.Nil(t, cfg)
			assert.NotEmpty(t, problems(t, err))
			return
		}
		again := proto.CloneOf(cfg)
		again.AllowUnknownMethods = true
		_, err = retrybudget.New(retrybudget.WithConfig(again))
		require.NoError(t, err)

		text, lost, err := serviceconfig.Marshal(cfg)
		require.NoError(t, err)
		assert.Empty(t, lost)
		again, err = serviceconfig.Parse(text)
		require.NoError(t, err)
		assertEqual(t, cfg, again)
	})
}
