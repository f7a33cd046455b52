package retrybudget //nolint:testpackage // decide is the one decision of the library and has no exported form

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// allowed returns the values under which a retry follows, whatever the rest.
func allowed() question {
	return question{
		retryable: true, attempt: 1, maxAttempts: 3,
		maxServerDelay: 30 * time.Second,
		hasDeadline:    true, left: time.Second, need: 100 * time.Millisecond,
		wait: func() time.Duration { return 50 * time.Millisecond },
		take: func() bool { return true },
	}
}

// obstacle is one thing that stands against a retry.
type obstacle struct {
	name   string
	set    func(*question)
	reason Reason
}

// obstacles lists them in the order in which they win.
func obstacles() []obstacle {
	return []obstacle{
		{"disabled", func(q *question) { q.disabled = true }, ReasonDisabled},
		{"caller cancelled", func(q *question) { q.caller = ReasonCanceled }, ReasonCanceled},
		{"caller's deadline", func(q *question) { q.caller = ReasonDeadline }, ReasonDeadline},
		{"error of a closed connection", func(q *question) { q.closing = true }, ReasonClosed},
		{"method timeout", func(q *question) { q.methodTimeout = true }, ReasonDeadline},
		{"not retryable", func(q *question) { q.retryable = false }, ReasonNotRetryable},
		{"committed", func(q *question) { q.committed = true }, ReasonCommitted},
		{"connection closed", func(q *question) { q.connClosed = true }, ReasonClosed},
		{"veto", func(q *question) { q.veto = true }, ReasonPushback},
		{"attempts", func(q *question) { q.attempt = q.maxAttempts }, ReasonMaxAttempts},
		{"no time", func(q *question) { q.left = 50 * time.Millisecond }, ReasonDeadline},
		{"budget", func(q *question) { q.take = func() bool { return false } }, ReasonBudget},
	}
}

func TestDecide_eachReason(t *testing.T) {
	t.Parallel()
	more := []obstacle{
		{"server delay above the limit", func(q *question) { q.serverDelay = q.maxServerDelay + 1 }, ReasonPushback},
		{"past the last attempt", func(q *question) { q.attempt = q.maxAttempts + 1 }, ReasonMaxAttempts},
		{"deadline gone", func(q *question) { q.left = -time.Second }, ReasonDeadline},
		{"an attempt needs all that is left", func(q *question) { q.need = q.left }, ReasonDeadline},
		{"longest wait", func(q *question) { q.wait = func() time.Duration { return NoMaxBackoff } }, ReasonDeadline},
	}
	for _, o := range append(obstacles(), more...) {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			q := allowed()
			o.set(&q)
			wait, reason := decide(&q)
			assert.Equal(t, o.reason, reason)
			assert.Zero(t, wait, "a refusal has no wait")
		})
	}
}

// The first reason that holds wins, for each pair of them.
func TestDecide_earlierWins(t *testing.T) {
	t.Parallel()
	all := obstacles()
	for i, earlier := range all {
		for _, later := range all[i+1:] {
			t.Run(earlier.name+" before "+later.name, func(t *testing.T) {
				t.Parallel()
				q := allowed()
				later.set(&q)
				earlier.set(&q)
				_, reason := decide(&q)
				assert.Equal(t, earlier.reason, reason)
			})
		}
	}
}

// The backoff is user code with a place in its sequence, and the budget loses a
// token when asked: neither may run for a retry that something else forbids.
func TestDecide_asksWaitAndBudgetOnlyWhenItComesToIt(t *testing.T) {
	t.Parallel()
	for _, o := range append(obstacles(), obstacle{"nothing", func(*question) {}, NoReason}) {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			q := allowed()
			o.set(&q)
			var asked []string
			wait, take := q.wait, q.take
			q.wait = func() time.Duration { asked = append(asked, "wait"); return wait() }
			q.take = func() bool { asked = append(asked, "take"); return take() }
			decide(&q)
			switch o.name {
			case "nothing", "budget":
				assert.Equal(t, []string{"wait", "take"}, asked)
			case "no time":
				assert.Equal(t, []string{"wait"}, asked)
			default:
				assert.Empty(t, asked)
			}
		})
	}
}

func TestDecide_retries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		set  func(*question)
		wait time.Duration
	}{
		{"with time to spare", func(*question) {}, 50 * time.Millisecond},
		{"last nanosecond that fits", func(q *question) { q.left = 150*time.Millisecond + 1 }, 50 * time.Millisecond},
		{"no deadline", func(q *question) { q.hasDeadline, q.left = false, 0 }, 50 * time.Millisecond},
		{"last attempt but one", func(q *question) { q.attempt = q.maxAttempts - 1 }, 50 * time.Millisecond},
		{"server delay at the limit", func(q *question) { q.serverDelay = q.maxServerDelay }, 50 * time.Millisecond},
		{"no wait", func(q *question) { q.wait = func() time.Duration { return 0 } }, 0},
		{"negative wait", func(q *question) { q.wait = func() time.Duration { return -time.Hour } }, 0},
		{"negative wait and little time", func(q *question) {
			q.left, q.need = 1, 0
			q.wait = func() time.Duration { return -time.Hour }
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := allowed()
			tt.set(&q)
			wait, reason := decide(&q)
			assert.Equal(t, NoReason, reason)
			assert.Equal(t, tt.wait, wait)
		})
	}
}

// The documented order of the reasons is the order in which they are found.
func TestReasons_inTheOrderOfTheDecision(t *testing.T) {
	t.Parallel()
	var found []Reason
	for _, o := range obstacles() {
		if !slices.Contains(found, o.reason) {
			found = append(found, o.reason)
		}
	}
	assert.Equal(t, Reasons(), found)
}
