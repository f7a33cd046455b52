package retrybudget_test

import (
	"context"
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
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

const (
	getStock     = quickstartv1.InventoryService_GetStock_FullMethodName     // NO_SIDE_EFFECTS
	setStock     = quickstartv1.InventoryService_SetStock_FullMethodName     // IDEMPOTENT
	reserveStock = quickstartv1.InventoryService_ReserveStock_FullMethodName // says nothing
)

// levelOf returns the idempotency that a call of method counts as.
func levelOf(t *testing.T, method string, options []retrybudget.Option, call ...grpc.CallOption) (level retrybudget.Idempotency) {
	t.Helper()
	r := newRetrier(t, append(options, retrybudget.WithClassifier(func(c retrybudget.CallInfo, _ error) retrybudget.Verdict {
		level = c.Idempotency
		return retrybudget.NoRetry
	}))...)
	err := r.UnaryClientInterceptor()(t.Context(), method, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		return status.Error(codes.Unavailable, "no")
	}, call...)
	require.Error(t, err)
	return level
}

// Call option, idempotency key, policy and descriptor decide in this order.
func TestIdempotency_sourcesInOrder(t *testing.T) {
	t.Parallel()
	const (
		unknown = retrybudget.IdempotencyUnknown
		yes     = retrybudget.Idempotent
		no      = retrybudget.NonIdempotent
	)
	for _, tt := range []struct {
		name         string
		option       retrybudget.Idempotency
		key          string
		policy       retrybudget.Idempotency
		method       string
		want, strict retrybudget.Idempotency
	}{
		{"nobody says anything", unknown, "", unknown, rpctest.Method, unknown, no},
		{"descriptor without a level", unknown, "", unknown, reserveStock, unknown, no},
		{"descriptor NO_SIDE_EFFECTS", unknown, "", unknown, getStock, yes, yes},
		{"descriptor IDEMPOTENT", unknown, "", unknown, setStock, yes, yes},
		{"policy", unknown, "", yes, rpctest.Method, yes, yes},
		{"policy says no", unknown, "", no, rpctest.Method, no, no},
		{"policy over descriptor", unknown, "", no, getStock, no, no},
		{"key", unknown, "request-id", unknown, rpctest.Method, yes, yes},
		{"key over policy", unknown, "request-id", no, rpctest.Method, yes, yes},
		{"option", yes, "", unknown, rpctest.Method, yes, yes},
		{"option says no", no, "", unknown, rpctest.Method, no, no},
		{"option over key", no, "request-id", unknown, rpctest.Method, no, no},
		{"option over policy", yes, "", no, rpctest.Method, yes, yes},
		{"option over descriptor", no, "", unknown, setStock, no, no},
		{"option over all", no, "request-id", yes, getStock, no, no},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			policy := retrybudget.WithPolicy(retrybudget.Policy{Idempotency: tt.policy, IdempotencyKey: tt.key})
			var call []grpc.CallOption
			if tt.option != unknown {
				call = append(call, retrybudget.CallIdempotency(tt.option))
			}
			assert.Equal(t, tt.want, levelOf(t, tt.method, []retrybudget.Option{policy}, call...))
			strict := []retrybudget.Option{policy, retrybudget.WithStrictIdempotency()}
			assert.Equal(t, tt.strict, levelOf(t, tt.method, strict, call...), "strict")
		})
	}
}

func TestIdempotency_callOptions(t *testing.T) {
	t.Parallel()
	withKey := []retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{IdempotencyKey: "request-id"})}
	for _, tt := range []struct {
		name    string
		options []retrybudget.Option
		method  string
		call    []grpc.CallOption
		want    retrybudget.Idempotency
	}{
		{"unknown leaves it to the descriptor", nil, getStock, []grpc.CallOption{retrybudget.CallIdempotency(retrybudget.IdempotencyUnknown)}, retrybudget.Idempotent},
		{"unknown leaves it to the key", withKey, rpctest.Method, []grpc.CallOption{retrybudget.CallIdempotency(retrybudget.IdempotencyUnknown)}, retrybudget.Idempotent},
		{"the last one counts", nil, rpctest.Method, []grpc.CallOption{retrybudget.CallIdempotency(retrybudget.Idempotent), retrybudget.CallIdempotency(retrybudget.NonIdempotent)}, retrybudget.NonIdempotent},
		{"a key for the call", nil, rpctest.Method, []grpc.CallOption{retrybudget.CallIdempotencyKey("request-id")}, retrybudget.Idempotent},
		{"no key for the call", withKey, rpctest.Method, []grpc.CallOption{retrybudget.CallIdempotencyKey("")}, retrybudget.IdempotencyUnknown},
		{"no key for the call, but a descriptor", withKey, setStock, []grpc.CallOption{retrybudget.CallIdempotencyKey("")}, retrybudget.Idempotent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, levelOf(t, tt.method, tt.options, tt.call...))
		})
	}
}

// Names come from the application and, in a proxy, from strangers.
func TestIdempotency_namesThatAreNoMethods(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "/", "//", ".", "x", "/x", "/x/", "/x/y/z", "/" + "\xff/\xfe",
		"/retrybudget.quickstart.v1.InventoryService/NoSuchMethod",
		"/retrybudget.quickstart.v1.InventoryService/",
		"/retrybudget.quickstart.v1/InventoryService", // a service
		"/retrybudget.quickstart/v1",                  // a package
		"/retrybudget.quickstart.v1/GetStockRequest",  // a message
		"/retrybudget.quickstart.v1.GetStockRequest/sku",
		"/google.protobuf.MethodOptions.IdempotencyLevel/IDEMPOTENT",
	} {
		assert.Equal(t, retrybudget.IdempotencyUnknown, levelOf(t, name, nil), "%q", name)
	}
}

// The level must reach the decision: ABORTED is retried on idempotent methods
// only, UNAVAILABLE on all but the non-idempotent.
func TestIdempotency_onTheWire(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                 string
		method               string
		policy               retrybudget.Policy
		options              []retrybudget.Option
		aborted, unavailable int
	}{
		{"NO_SIDE_EFFECTS", getStock, retrybudget.Policy{}, nil, 3, 3},
		{"IDEMPOTENT", setStock, retrybudget.Policy{}, nil, 3, 3},
		{"no level", reserveStock, retrybudget.Policy{}, nil, 1, 3},
		{"strict, NO_SIDE_EFFECTS", getStock, retrybudget.Policy{}, []retrybudget.Option{retrybudget.WithStrictIdempotency()}, 3, 3},
		{"strict, no level", reserveStock, retrybudget.Policy{}, []retrybudget.Option{retrybudget.WithStrictIdempotency()}, 1, 1},
		{"policy against the descriptor", getStock, retrybudget.Policy{Idempotency: retrybudget.NonIdempotent}, nil, 1, 1},
		{"key", reserveStock, retrybudget.Policy{IdempotencyKey: "request-id"}, nil, 3, 3},
		{"policy of the service", reserveStock, retrybudget.Policy{}, []retrybudget.Option{
			retrybudget.WithMethodPolicy("/retrybudget.quickstart.v1.InventoryService/", retrybudget.Policy{Idempotency: retrybudget.Idempotent}),
		}, 3, 3},
		{"policy of the method over its service's", reserveStock, retrybudget.Policy{}, []retrybudget.Option{
			retrybudget.WithMethodPolicy("/retrybudget.quickstart.v1.InventoryService/", retrybudget.Policy{Idempotency: retrybudget.Idempotent}),
			retrybudget.WithMethodPolicy(reserveStock, retrybudget.Policy{Idempotency: retrybudget.NonIdempotent}),
		}, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				cc := s.Dial(t, newRetrier(t, append(tt.options, retrybudget.WithPolicy(tt.policy))...).DialOptions()...)
				for code, want := range map[codes.Code]int{codes.Aborted: tt.aborted, codes.Unavailable: tt.unavailable} {
					s.Script(tt.method, rpctest.Fail(code, "no"))
					require.Error(t, rpctest.CallMethod(rpctest.WithCallID(t.Context(), code.String()), cc, tt.method))
					assert.Equal(t, want, s.Attempts(code.String()), "%v", code)
				}
			})
		})
	}
}

// Only a hinted RESOURCE_EXHAUSTED says that nothing was done, and an option
// takes even that away.
func TestIdempotency_nonIdempotentIsRetriedOnlyWhenRefusedBeforeWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		options  []retrybudget.Option
		attempts int
	}{
		{"by default", nil, 2},
		{"without non-idempotent retries", []retrybudget.Option{retrybudget.WithoutNonIdempotentRetries()}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.RetryInfo(codes.ResourceExhausted, 300*time.Millisecond), rpctest.OK())
				policy := retrybudget.WithPolicy(retrybudget.Policy{Idempotency: retrybudget.NonIdempotent})
				cc := s.Dial(t, newRetrier(t, append(tt.options, policy)...).DialOptions()...)
				err := rpctest.Call(t.Context(), cc)
				assert.Equal(t, tt.attempts == 2, err == nil)
				assert.Equal(t, tt.attempts, s.Attempts(""))
			})
		})
	}
}
