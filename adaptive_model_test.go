package retrybudget_test

import (
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// adaptiveModel is the algorithm of an AdaptiveBudget as one would write it down:
// one thing after the other, in millionths of a token.
type adaptiveModel struct {
	reserve, ratio int64
	leak           time.Duration

	level     int64
	succeeded int64 // not yet in level
	settled   time.Time
}

// after returns the level as a settlement now would leave it.
func (m *adaptiveModel) after(now time.Time) int64 {
	level := m.level + m.ratio*m.succeeded
	dt := now.Sub(m.settled)
	if level > m.reserve && dt > 0 {
		kept := new(big.Int).Mul(big.NewInt(level-m.reserve), big.NewInt(int64(m.leak)))
		kept.Div(kept, new(big.Int).Add(big.NewInt(int64(m.leak)), big.NewInt(int64(dt))))
		level = m.reserve + kept.Int64()
	}
	return level
}

func (m *adaptiveModel) take(now time.Time, price int64) bool {
	m.level = m.after(now)
	m.succeeded = 0
	m.settled = now
	if m.level < 1_000_000 {
		return false
	}
	m.level -= price
	return true
}

// pricedCause is a cause and what the documentation says about its price.
type pricedCause struct {
	cause      retrybudget.Cause
	price      int64
	refundable bool
}

func pricedCauses() []pricedCause {
	return []pricedCause{
		{plain, 1_000_000, true},
		{timedOut, 1_500_000, false},
		{exhausted, 1_500_000, false},
		{hinted, 4_000_000, true},
		{hintedLate, 6_000_000, false},
		{lateAnswer, 1_500_000, false},
		{aborted, 1_000_000, false},
		{retrybudget.Cause{Code: codes.ResourceExhausted, Attempt: 2, Exhausted: true}, 6_000_000, false},
	}
}

// FuzzAdaptiveBudget runs random operations beside the model. Both must agree to
// the millionth.
func FuzzAdaptiveBudget(f *testing.F) {
	f.Add(uint16(0), uint16(0), uint32(0), []byte("sstthhrrxx"))
	f.Add(uint16(2), uint16(99), uint32(2_000_000), []byte{0, 10, 20, 30, 3, 3, 3, 255, 3, 4, 5, 6, 7, 254, 3, 3})
	f.Add(uint16(9), uint16(999), uint32(1), []byte{0, 0, 0, 0, 0, 2, 10, 18, 26, 34, 250, 2, 10, 18, 251, 2})
	f.Fuzz(func(t *testing.T, reserve, ratio uint16, leak uint32, ops []byte) {
		cfg := retrybudget.AdaptiveConfig{
			Reserve: int(reserve),
			Ratio:   float64(ratio%1000+1) / 1000,
			Leak:    time.Millisecond + time.Duration(leak%3_599_999_000)*time.Microsecond, // up to an hour
		}
		synctest.Test(t, func(t *testing.T) { runBesideModel(t, cfg, ops) })
	})
}

func runBesideModel(t *testing.T, cfg retrybudget.AdaptiveConfig, ops []byte) {
	t.Helper()
	b := newAdaptive(t, cfg)
	m := &adaptiveModel{reserve: int64(cfg.Reserve) * 1_000_000, ratio: int64(cfg.Ratio*1000+0.5) * 1000, leak: cfg.Leak, settled: time.Now()}
	if cfg.Reserve == 0 {
		m.reserve = 2_000_000
	}
	m.level = m.reserve
	var open []pricedCause // granted, not settled
	for i, op := range ops {
		arg := int(op / 8)
		switch op % 8 {
		case 0, 1:
			succeed(b, arg+1)
			m.succeeded += int64(arg + 1)
		case 2, 3:
			c := pricedCauses()[arg%len(pricedCauses())]
			granted := m.take(time.Now(), c.price)
			require.Equal(t, granted, b.TryTake(c.cause), "operation %d", i)
			if granted {
				open = append(open, c)
			}
		case 4:
			b.RecordFailure(plain)
		case 5, 6:
			if len(open) == 0 {
				continue
			}
			c, o := open[arg%len(open)], allOutcomes[arg%len(allOutcomes)]
			open = append(open[:arg%len(open)], open[arg%len(open)+1:]...)
			b.Settle(c.cause, o)
			if o == retrybudget.Refused || c.refundable && (o == retrybudget.Succeeded || o == retrybudget.Answered) {
				m.level += c.price
			}
		default:
			<-time.After(time.Microsecond << arg) // up to 36 minutes
		}
		require.Equal(t, m.after(time.Now()), microsIn(b), "operation %d", i)
	}
}
