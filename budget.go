package retrybudget

import (
	"math"

	"google.golang.org/grpc/codes"
)

// Budget is the shared allowance that every retry is drawn from. The library
// calls it; applications implement it only to bring an allowance of their own.
//
// All methods must be safe for concurrent use and must not block: they run on
// the goroutine of the call, RecordSuccess on every successful one.
//
// A Budget that also implements [LevelReporter] shows up in [Retrier.Budgets]
// and may be dropped from a full key table; see [WithMaxKeys].
type Budget interface {
	// RecordSuccess says that a call's first attempt ended OK, or with an
	// answer that [WithSuccess] counts as success. It runs once per call, never
	// for a retry or for a message of a stream.
	RecordSuccess()

	// RecordFailure says that an attempt failed with a retryable code, or that
	// the server's answer vetoed a retry. It runs before anything else is
	// decided, so also when no retry follows.
	RecordFailure(c Cause)

	// TryTake withdraws the price of one retry and reports true, or takes
	// nothing and reports false. It runs when the retry is decided, before the
	// wait for it.
	TryTake(c Cause) bool

	// Settle tells how a granted retry ended. It runs exactly once for every
	// TryTake that reported true, with the same Cause.
	Settle(c Cause, o Outcome)
}

// LevelReporter is what a [Budget] implements to be seen: Level returns the
// tokens that retries could take now and the most it can hold, both in tokens
// (one token pays for one ordinary retry). It must be safe for concurrent use.
type LevelReporter interface {
	Level() (tokens, capacity float64)
}

// Cause is the failed attempt that asks for a retry, as a [Budget] sees it.
type Cause struct {
	// Code is the failed attempt's status code.
	Code codes.Code
	// Attempt is the failed attempt's number, counted from 1.
	Attempt int
	// AttemptTimeout is true when the per-attempt timeout ended the attempt.
	AttemptTimeout bool
	// Exhausted is true when the answer said that the server's own retries
	// were refused by its budget further down (trailer retrybudget-exhausted).
	Exhausted bool
	// Veto is true when the answer forbids a retry (a negative or unreadable
	// grpc-retry-pushback-ms). Only RecordFailure ever sees it.
	Veto bool
}

// Outcome is how a granted retry ended.
type Outcome uint8

// The outcomes of a granted retry.
const (
	// Succeeded: the retry's attempt ended OK, or a stream delivered a message.
	Succeeded Outcome = iota + 1
	// Answered: the attempt ended with a status that is not retryable; the
	// dependency did answer.
	Answered
	// Failed: the attempt failed in a retryable way, was cut short by its own
	// timeout or by the caller, or an inner interceptor panicked.
	Failed
	// Abandoned: the attempt was never sent, because the caller gave up or the
	// connection closed during the wait.
	Abandoned
	// Refused: another budget of a [Both] said no, so nothing was granted and
	// the whole price goes back.
	Refused
)

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "succeeded"
	case Answered:
		return "answered"
	case Failed:
		return "failed"
	case Abandoned:
		return "abandoned"
	case Refused:
		return "refused"
	default:
		return "unknown"
	}
}

// BudgetConfig describes one budget and makes it. [TokenBucketConfig] is one;
// [BudgetFunc] turns a function into one.
type BudgetConfig interface {
	// NewBudget returns a new budget, or an error that names the wrong field.
	NewBudget() (Budget, error)
}

// BudgetFunc makes a [BudgetConfig] of a function, for budgets of the
// application's own.
type BudgetFunc func() (Budget, error)

// NewBudget calls f.
func (f BudgetFunc) NewBudget() (Budget, error) { return f() }

// hintedPrice is how many times the price of a retry grows when the failure
// says that a server further down ran out of its own retries: whoever retries
// first in a chain multiplies the work of everybody behind.
const hintedPrice = 4

// milli is one token in the fixed-point unit of all budgets, a thousandth.
const milli = 1000

// unlimited grants every retry; see [Unlimited].
type unlimited struct{}

func (unlimited) RecordSuccess()        {}
func (unlimited) RecordFailure(Cause)   {}
func (unlimited) TryTake(Cause) bool    { return true }
func (unlimited) Settle(Cause, Outcome) {}
func (unlimited) Level() (_, _ float64) { return math.Inf(1), math.Inf(1) }
