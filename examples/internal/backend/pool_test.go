package backend_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/backend"
)

// finished is when each job of a pool ends, from now, in the order in which
// the jobs were given.
func finished(done []<-chan struct{}) []time.Duration {
	start := time.Now()
	var at []time.Duration
	for _, d := range done {
		<-d
		at = append(at, time.Since(start))
	}
	return at
}

func TestPool_worksAtItsLimitInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := backend.NewPool(2)
		var done []<-chan struct{}
		for range 6 {
			done = append(done, p.Do(time.Second))
		}
		assert.Equal(t, []time.Duration{1e9, 1e9, 2e9, 2e9, 3e9, 3e9}, finished(done))
	})
}

// Nobody reads the channels of the first jobs: their callers are gone.
func TestPool_finishesAbandonedWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := backend.NewPool(1)
		for range 3 {
			p.Do(time.Second)
		}
		assert.Equal(t, []time.Duration{4 * time.Second}, finished([]<-chan struct{}{p.Do(time.Second)}))
	})
}

func TestPool_resize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := backend.NewPool(2)
		var done []<-chan struct{}
		for range 5 {
			done = append(done, p.Do(2*time.Second))
		}
		time.AfterFunc(time.Second, func() { p.Resize(1) })   // both go on, only one starts anew
		time.AfterFunc(5*time.Second, func() { p.Resize(3) }) // the rest starts at once
		assert.Equal(t, []time.Duration{2e9, 2e9, 4e9, 6e9, 7e9}, finished(done))
	})
}

// What waits in the queue when it gets slow is slow, what is being done is not.
func TestPool_slow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := backend.NewPool(1)
		var done []<-chan struct{}
		for range 4 {
			done = append(done, p.Do(time.Second))
		}
		time.AfterFunc(500*time.Millisecond, func() { p.Slow(3) })
		time.AfterFunc(5*time.Second, func() { p.Slow(1) })
		assert.Equal(t, []time.Duration{1e9, 4e9, 7e9, 8e9}, finished(done))
	})
}

func TestPool_noWorkersWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := backend.NewPool(1)
		p.Resize(0)
		done := p.Do(time.Second)
		time.AfterFunc(time.Minute, func() { p.Resize(1) })
		assert.Equal(t, []time.Duration{61 * time.Second}, finished([]<-chan struct{}{done}))
	})
}

func TestPool_closeStartsNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := backend.NewPool(1)
		running, waiting := p.Do(time.Second), p.Do(time.Second)
		p.Close()
		late := p.Do(time.Second)
		assert.Equal(t, []time.Duration{time.Second}, finished([]<-chan struct{}{running}))
		select {
		case <-waiting:
			assert.Fail(t, "queued work was done after close")
		case <-late:
			assert.Fail(t, "work was accepted after close")
		case <-time.After(time.Hour):
		}
	})
}
