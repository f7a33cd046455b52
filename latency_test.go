package retrybudget_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// A retry is only waited for when the time that an attempt usually takes is left
// after the wait of 60 ms.
func TestLatency_aRetryThatCannotFinishIsNotBegun(t *testing.T) {
	t.Parallel()
	const attempt = 100 * ms
	tests := []struct {
		name      string
		successes int
		idle      time.Duration
		deadline  time.Duration
		opts      []grpc.CallOption
		retried   bool
	}{
		{"not known yet", 0, 0, 150 * ms, nil, true},
		{"after one success", 1, 0, 150 * ms, nil, false},
		{"after many", 40, 0, 150 * ms, nil, false},
		{"just not enough", 16, 0, 160 * ms, nil, false},
		{"just enough", 16, 0, 160*ms + 1, nil, true},
		{"never above the attempt's timeout", 16, 0, 150 * ms, []grpc.CallOption{retrybudget.CallPerAttemptTimeout(20 * ms)}, true},
		{"believed for ten seconds", 16, 10 * time.Second, 150 * ms, nil, false},
		{"but not longer", 16, 10*time.Second + 1, 150 * ms, nil, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, rpctest.After(attempt, rpctest.OK()))
				ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
				r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal), // with one, every success is measured
					retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(60*ms, 1)}))
				cc := s.Dial(t, r.DialOptions()...)
				for i := range test.successes {
					require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), fmt.Sprint(i)), cc))
				}
				<-time.After(test.idle)
				s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
				start := time.Now()

				err := rpctest.Call(rpctest.WithCallID(after(t, test.deadline), "late"), cc, test.opts...)

				if test.retried {
					require.NoError(t, err)
					assert.Equal(t, []time.Duration{60 * ms}, s.Gaps("late"))
					return
				}
				assert.ErrorIs(t, err, retrybudget.ErrDeadline)
				assert.Zero(t, time.Since(start))
				assert.Equal(t, 1, s.Attempts("late"))
				lines := ledger.read()
				assert.Equal(t, "failure Unavailable 1", lines[len(lines)-1], "no token spent")
			})
		})
	}
}

func TestLatency_isKeptForEachMethod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(otherMethod, rpctest.After(time.Minute, rpctest.OK()))
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(60*ms, 1)})).DialOptions()...)

		require.NoError(t, rpctest.CallMethod(t.Context(), cc, otherMethod))
		assert.NoError(t, rpctest.Call(after(t, 150*ms), cc))
	})
}

// The estimate follows what the dependency does now, an eighth of the way with
// each success.
func TestLatency_followsTheDependency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		cc := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{Backoff: exact(60*ms, 1)})).DialOptions()...)
		call := func(id string, step rpctest.Step) {
			s.Script(rpctest.Method, step)
			require.NoError(t, rpctest.Call(rpctest.WithCallID(t.Context(), id), cc))
		}
		call("slow", rpctest.After(800*ms, rpctest.OK()))
		for i := range 15 { // within the first 16 all are measured
			call(fmt.Sprint(i), rpctest.OK())
		}
		// 800 ms · (7/8)^15 = 107.9 ms
		s.Script(rpctest.Method, rpctest.Unavailable(), rpctest.OK())
		assert.Error(t, rpctest.Call(rpctest.WithCallID(after(t, 167*ms), "refused"), cc))
		assert.Equal(t, 1, s.Attempts("refused"))
		assert.NoError(t, rpctest.Call(rpctest.WithCallID(after(t, 168*ms), "retried"), cc))
	})
}
