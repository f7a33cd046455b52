package retrybudget_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// countStock has the option (retrybudget.v1.retry) with five attempts.
const countStock = quickstartv1.InventoryService_CountStock_FullMethodName

// Of every combination of sources the first in rank decides: call option, code,
// file, method option, resolver, default. Each allows another number of attempts.
func TestSources_inOrder(t *testing.T) {
	t.Parallel()
	const resolverConfig = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s",
		"maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	for set := range 1 << 5 {
		call, code, file, option, resolver := set&1 != 0, set&2 != 0, set&4 != 0, set&8 != 0, set&16 != 0
		t.Run(fmt.Sprintf("call=%t,code=%t,file=%t,option=%t,resolver=%t", call, code, file, option, resolver), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				method, want := reserveStock, 3
				var options []retrybudget.Option
				var callOptions []grpc.CallOption
				if resolver {
					options, want = append(options, retrybudget.WithResolverPolicies()), 4
				}
				if option {
					method, want = countStock, 5
				}
				if file {
					options, want = append(options, withConfig(t, `default_policy { max_attempts: 6 }`)), 6
				}
				if code {
					options, want = append(options, retrybudget.WithPolicy(policy{MaxAttempts: 7})), 7
				}
				if call {
					callOptions, want = append(callOptions, retrybudget.CallMaxAttempts(8)), 8
				}
				s := rpctest.New()
				s.Script(method, rpctest.Unavailable())
				cc := s.Dial(t, append(newRetrier(t, options...).DialOptions(), grpc.WithDefaultServiceConfig(resolverConfig))...)

				require.Error(t, rpctest.CallMethod(t.Context(), cc, method, callOptions...))

				assert.Equal(t, want, s.Attempts(""))
			})
		})
	}
}

// Within a source: the method, its service, the default. A source that has only a
// default outranks one further down that names the method.
func TestSources_levels(t *testing.T) {
	t.Parallel()
	const service = "/retrybudget.quickstart.v1.InventoryService/"
	codeOf := func(name string, n int) retrybudget.Option {
		return retrybudget.WithMethodPolicy(name, policy{MaxAttempts: n})
	}
	fileOf := func(config string) retrybudget.Option { return retrybudget.WithConfig(configOf(t, config)) }
	const (
		fileMethod  = ` methods { names: "` + countStock + `" policy { max_attempts: 21 } } `
		fileService = ` methods { names: "` + service + `" policy { max_attempts: 22 } } `
		fileDefault = ` default_policy { max_attempts: 23 } `
	)
	codeDefault := retrybudget.WithPolicy(policy{MaxAttempts: 13})
	for _, tt := range []struct {
		name    string
		options []retrybudget.Option
		want    int
	}{
		{"code: all", []retrybudget.Option{codeOf(service, 12), codeOf(countStock, 11), codeDefault}, 11},
		{"code: service and default", []retrybudget.Option{codeOf(service, 12), codeDefault}, 12},
		{"code: default", []retrybudget.Option{codeDefault}, 13},
		{"code: another method", []retrybudget.Option{codeOf(getStock, 11)}, 5},
		{"file: all", []retrybudget.Option{fileOf(fileService + fileMethod + fileDefault)}, 21},
		{"file: service and default", []retrybudget.Option{fileOf(fileService + fileDefault)}, 22},
		{"file: default", []retrybudget.Option{fileOf(fileDefault)}, 23},
		{"file: another method", []retrybudget.Option{fileOf(`methods { names: "` + getStock + `" policy { max_attempts: 21 } }`)}, 5},
		{"code's default over file's method", []retrybudget.Option{fileOf(fileMethod), codeDefault}, 13},
		{"code's service over file's method", []retrybudget.Option{fileOf(fileMethod), codeOf(service, 12)}, 12},
		{"code's other method and file's default", []retrybudget.Option{codeOf(getStock, 11), fileOf(fileDefault)}, 23},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRetrier(t, append(tt.options, retrybudget.WithMode(retrybudget.Enforce))...)
			synctest.Test(t, func(t *testing.T) {
				assert.Equal(t, tt.want, callName(t.Context(), r, countStock, codes.Unavailable))
				require.NoError(t, r.SetMode(retrybudget.Observe))
				assert.Equal(t, tt.want, callName(t.Context(), r, countStock, codes.Unavailable), "after a change of mode")
			})
		})
	}
}

// The first source is used whole: what it leaves open is the library's default,
// not the next source's.
func TestSources_areNotMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := `default_policy { max_attempts: 9 retryable_codes: CODE_INTERNAL constant_backoff {} timeout { seconds: 1 } }`
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		r := newRetrier(t, withConfig(t, file), retrybudget.WithMethodPolicy(rpctest.Method, policy{Backoff: exact(200*ms, 10)}))

		require.Error(t, rpctest.Call(t.Context(), s.Dial(t, r.DialOptions()...)))

		assert.Len(t, s.Gaps(""), 2, "three attempts, UNAVAILABLE retried, no timeout of 1 s")
		assert.Zero(t, s.Entries("")[0].Left)
	})
}
