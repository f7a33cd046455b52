// Package config_test checks the configuration file beside it, with calls that
// fail.
package config_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/config"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

func load(t *testing.T) *retrybudgetv1.Config {
	t.Helper()
	cfg, err := config.Load("retrybudget.yaml")
	require.NoError(t, err)
	return cfg
}

// What the file promises happens to calls that fail.
func TestSample_drivesCalls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		method string
		step   rpctest.Step
		gaps   []time.Duration // nil: only their number counts
		count  int
	}{
		"read, unavailable":     {quickstartv1.InventoryService_GetStock_FullMethodName, rpctest.Unavailable(), []time.Duration{20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}, 4},
		"read, internal":        {quickstartv1.InventoryService_GetStock_FullMethodName, rpctest.Fail(codes.Internal, "no"), nil, 4},
		"read, hanging":         {quickstartv1.InventoryService_GetStock_FullMethodName, rpctest.Hang(), []time.Duration{520 * time.Millisecond, 520 * time.Millisecond}, 3},
		"reservation, aborted":  {quickstartv1.InventoryService_ReserveStock_FullMethodName, rpctest.Fail(codes.Aborted, "no"), nil, 3},
		"reservation, internal": {quickstartv1.InventoryService_ReserveStock_FullMethodName, rpctest.Fail(codes.Internal, "no"), nil, 1},
		"the rest, aborted":     {quickstartv1.InventoryService_ImportStock_FullMethodName, rpctest.Fail(codes.Aborted, "no"), nil, 3},
		"the rest, deadline":    {quickstartv1.InventoryService_ImportStock_FullMethodName, rpctest.Fail(codes.DeadlineExceeded, "no"), nil, 1},
		"default, unavailable":  {rpctest.Method, rpctest.Unavailable(), nil, 3},
		"default, internal":     {rpctest.Method, rpctest.Fail(codes.Internal, "no"), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, err := retrybudget.New(retrybudget.WithConfig(load(t)))
				require.NoError(t, err)
				s := rpctest.New()
				s.Script(tt.method, tt.step)

				require.Error(t, rpctest.CallMethod(t.Context(), s.Dial(t, r.DialOptions()...), tt.method))

				assert.Equal(t, tt.count, s.Attempts(""))
				if tt.gaps != nil {
					assert.Equal(t, tt.gaps, s.Gaps(""))
				}
			})
		})
	}
}

// Both budgets pay: ten tokens of the method, but only three of the target.
func TestSample_budgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := retrybudget.New(retrybudget.WithConfig(load(t)))
		require.NoError(t, err)
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Unavailable())
		cc := s.Dial(t, r.DialOptions()...)
		for range 10 {
			require.Error(t, rpctest.Call(t.Context(), cc))
		}
		assert.Equal(t, 10+3, s.Attempts(""))
	})
}

func TestSample_serverSide(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	assert.NotPanics(t, func() { retrybudget.UnaryServerInterceptor(retrybudget.WithServerConfig(cfg)) })
}

// Every setting that there is occurs in it, as a key or in a comment.
func TestSample_isComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("retrybudget.yaml")
	require.NoError(t, err)
	var check func(m protoreflect.MessageDescriptor)
	check = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			assert.Contains(t, string(text), string(f.Name())+":", "%s", f.FullName())
			if f.Message() != nil && f.Message().ParentFile().Package() == "retrybudget.v1" {
				check(f.Message())
			}
		}
	}
	check((&retrybudgetv1.Config{}).ProtoReflect().Descriptor())
}
