package overload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = time.Millisecond

func TestServer_finishesFirstInFirstOut(t *testing.T) {
	t.Parallel()
	s := newServer(Scenario{Workers: 2}, window{})
	for i, job := range []struct{ arrives, work, finished time.Duration }{
		{0, 30 * ms, 30 * ms},
		{0, 10 * ms, 10 * ms},
		{5 * ms, 10 * ms, 20 * ms},   // waits for the second worker
		{6 * ms, 5 * ms, 25 * ms},    // waits longer
		{50 * ms, 10 * ms, 60 * ms},  // finds both free
		{100 * ms, 1 * ms, 101 * ms}, // idle time is not made up for
	} {
		finished, served := s.accept(job.arrives, job.work)
		assert.Equal(t, job.finished, finished, "job %d", i)
		assert.True(t, served)
	}
}

func TestServer_workersLeaveInTheFault(t *testing.T) {
	t.Parallel()
	s := newServer(Scenario{Workers: 3, Away: 2}, window{10 * ms, 100 * ms})
	for i, job := range []struct{ arrives, work, finished time.Duration }{
		{5 * ms, 10 * ms, 15 * ms},   // begun before, finished
		{20 * ms, 10 * ms, 30 * ms},  // two of three have left
		{20 * ms, 10 * ms, 40 * ms},  // so this one waits for the third
		{20 * ms, 80 * ms, 120 * ms}, // and this one, over the end of the fault
		{21 * ms, 10 * ms, 110 * ms}, // the others are back
		{21 * ms, 10 * ms, 110 * ms},
		{21 * ms, 10 * ms, 120 * ms},
	} {
		finished, _ := s.accept(job.arrives, job.work)
		assert.Equal(t, job.finished, finished, "job %d", i)
	}
}

func TestServer_slowOnlyInTheFault(t *testing.T) {
	t.Parallel()
	s := newServer(Scenario{Workers: 1, Slow: 6}, window{10 * ms, 20 * ms})
	for i, job := range []struct{ arrives, work, finished time.Duration }{
		{0, 5 * ms, 5 * ms},
		{12 * ms, 2 * ms, 24 * ms},
		{13 * ms, 2 * ms, 26 * ms},
	} {
		finished, _ := s.accept(job.arrives, job.work)
		assert.Equal(t, job.finished, finished, "job %d", i)
	}
}

func TestServer_shedsBehindALongQueue(t *testing.T) {
	t.Parallel()
	s := newServer(Scenario{Workers: 1, ShedBehind: 10 * ms, ShedCost: 0.5}, window{})
	for i, job := range []struct {
		work, finished time.Duration
		served         bool
	}{
		{10 * ms, 10 * ms, true},
		{4 * ms, 14 * ms, true},
		{4 * ms, 16 * ms, false},
		{4 * ms, 18 * ms, false},
	} {
		finished, served := s.accept(0, job.work)
		assert.Equal(t, job.finished, finished, "job %d", i)
		assert.Equal(t, job.served, served, "job %d", i)
	}
}
