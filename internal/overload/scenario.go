package overload

import (
	"time"

	"github.com/retrybudget/retrybudget"
)

// Size says how long the worlds are.
type Size struct {
	// Warmup is the time of health before a fault.
	Warmup time.Duration
	// Failures is how many first attempts fail, at least, where the share of
	// them that is masked is measured; but no such fault takes longer than
	// Longest.
	Failures int
	Longest  time.Duration
	// Watch is how long the world goes on after an overload.
	Watch time.Duration
	// Probabilities are the shares of failing attempts at which steady
	// amplification is measured.
	Probabilities []float64
}

// FullSize is that of the published table.
func FullSize() Size {
	return Size{
		Warmup:        time.Minute,
		Failures:      20_000,
		Longest:       time.Hour,
		Watch:         time.Minute,
		Probabilities: []float64{0.01, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1},
	}
}

// SmallSize is for every day: what chance decides is measured less precisely.
func SmallSize() Size {
	return Size{
		Warmup:        12 * time.Second, // enough to fill a TokenBucket
		Failures:      1500,
		Longest:       30 * time.Second,
		Watch:         35 * time.Second,
		Probabilities: []float64{0.1, 0.25, 1},
	}
}

// The strategies.

// NoRetries is the same client with a budget that never grants anything.
func NoRetries() Strategy {
	return Strategy{"no retries", func() retrybudget.BudgetFactory { return retrybudget.Shared(nothing{}) }}
}

type nothing struct{}

func (nothing) RecordSuccess()                                {}
func (nothing) RecordFailure(retrybudget.Cause)               {}
func (nothing) TryTake(retrybudget.Cause) bool                { return false }
func (nothing) Settle(retrybudget.Cause, retrybudget.Outcome) {}

// TokenBucket is the library's default: capacity 20, ratio 0.1, empty at the
// start.
func TokenBucket() Strategy {
	return Strategy{"TokenBucket", func() retrybudget.BudgetFactory {
		return retrybudget.PerMethod(retrybudget.TokenBucketConfig{})
	}}
}

// Adaptive is an AdaptiveBudget per method and per target.
func Adaptive() Strategy { return Strategy{"AdaptiveBudget", retrybudget.Adaptive} }

// Throttle is what gRFC A6 suggests: 10 tokens per target, 0.1 for a success.
func Throttle() Strategy {
	return Strategy{"Throttle", func() retrybudget.BudgetFactory {
		return retrybudget.PerTarget(retrybudget.ThrottleConfig{MaxTokens: 10, TokenRatio: 0.1})
	}}
}

// Unlimited is the control: three attempts, whatever happens.
func Unlimited() Strategy { return Strategy{"unlimited", retrybudget.Unlimited} }

// The scenarios.

// ordinary is the world of random errors and outages: 16 of 40 workers are busy.
func ordinary(size Size) Scenario {
	return Scenario{
		Clients: 40, Rate: 20, Methods: 1,
		Workers: 40, Mean: 20 * time.Millisecond,
		Warmup: size.Warmup,
	}
}

// RandomErrors answers a share p of all attempts with UNAVAILABLE.
func RandomErrors(size Size, p float64) Scenario {
	s := ordinary(size)
	s.Fail = []float64{p}
	// A little more than is needed on average, so that chance does not leave
	// too few.
	needed := 1.05 * float64(size.Failures) / p / s.total()
	s.Fault = min(time.Duration(needed+1)*time.Second, size.Longest)
	return s
}

// PartialOutage answers a share p of all attempts with UNAVAILABLE for a minute,
// as when this share of the backends is gone and every attempt picks one at
// random.
func PartialOutage(size Size, p float64) Scenario {
	s := ordinary(size)
	s.Fail = []float64{p}
	s.Fault, s.After = time.Minute, 2*time.Second
	return s
}

// SlowClients are 200 clients that call once in five seconds, with 10 % errors.
func SlowClients() Scenario {
	s := ordinary(Size{Warmup: time.Minute})
	s.Clients, s.Rate = 200, 0.2
	s.Fail = []float64{0.1}
	s.Fault = 540 * time.Second
	return s
}

// Outage fails everything for 30 s.
func Outage(size Size) Scenario {
	s := ordinary(size)
	s.Fail = []float64{1}
	s.Fault, s.After = 30*time.Second, 2*time.Second
	return s
}

// Overload takes 40 % of the workers of a server at 80 % utilisation for 20 s.
func Overload(size Size) Scenario {
	s := ordinary(size)
	s.Workers, s.Mean = 50, 50*time.Millisecond
	s.Away = 20
	s.Fault, s.After = 20*time.Second, size.Watch
	return s
}

// SlowDown makes everything take six times as long for 30 s, which brings the
// server to 90 % utilisation.
func SlowDown(size Size) Scenario {
	s := ordinary(size)
	s.Rate = 22.5
	s.Workers = 120
	s.Slow = 6
	s.Fault, s.After = 30*time.Second, 2*time.Second
	return s
}

// CostlyShedding takes 40 % of the workers of a server at 80 % utilisation for
// 30 s; the server answers UNAVAILABLE when its queue is longer than 100 ms, and
// that costs it a part of the work that it refuses.
func CostlyShedding(size Size, cost float64) Scenario {
	s := Overload(size)
	s.Fault, s.After = 30*time.Second, 2*time.Second
	s.ShedBehind, s.ShedCost = 100*time.Millisecond, cost
	return s
}

// Stall stops the one worker of a server at 70 % utilisation for a second. It
// has no chance in it.
func Stall() Scenario {
	return Scenario{
		Clients: 1, Rate: 70, Methods: 1, Even: true,
		Workers: 1, Mean: 10 * time.Millisecond, AttemptTimeout: 300 * time.Millisecond,
		Warmup: 10 * time.Second, Fault: time.Second, After: 50 * time.Second,
		Away: 1,
	}
}

// TwoMethods fails all attempts at the first method and 10 % of those at the
// second, each called as often as the one of RandomErrors. With alone it is the
// same world without the calls of the first.
func TwoMethods(size Size, alone bool) Scenario {
	s := RandomErrors(size, 0.1)
	s.Methods, s.Rate, s.Workers = 2, 2*s.Rate, 2*s.Workers
	s.Fail = []float64{1, 0.1}
	s.FirstSilent = alone
	return s
}

// Steady fails a share p of all attempts for good, from the start.
func Steady(p float64) Scenario {
	s := ordinary(Size{})
	s.Fail = []float64{p}
	s.Fault, s.Settling = 30*time.Second, 2*time.Second
	return s
}
