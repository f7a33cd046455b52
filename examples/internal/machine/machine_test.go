package machine_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/machine"
)

var quiet = machine.Load{CPUs: 2, Busy: 0.5, Measured: true, Late: time.Millisecond, MaxLate: 50 * time.Millisecond}

func TestLoad_saturated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*machine.Load)
		want   bool
	}{
		"quiet":           {func(*machine.Load) {}, false},
		"at the limits":   {func(l *machine.Load) { l.Busy, l.Late = machine.TooBusy, l.MaxLate }, false},
		"too busy":        {func(l *machine.Load) { l.Busy = 0.76 }, true},
		"busy with other": {func(l *machine.Load) { l.Busy, l.Late = 0.1, 51*time.Millisecond }, true},
		"not measured":    {func(l *machine.Load) { l.Busy, l.Measured = 1, false }, false},
	} {
		load := quiet
		test.change(&load)
		assert.Equal(t, test.want, load.Saturated(), name)
		assert.Equal(t, test.want, load.Warning() != "", name)
	}
}

func TestLoad_worse(t *testing.T) {
	t.Parallel()
	busy, late := quiet, quiet
	busy.Busy = 0.9
	late.Late = time.Second
	want := busy
	want.Late = time.Second
	assert.Equal(t, want, busy.Worse(late))
	assert.Equal(t, want, late.Worse(busy))
	unknown := quiet
	unknown.Measured = false
	assert.False(t, quiet.Worse(unknown).Measured)
}

func TestMeter_measuresThisProgram(t *testing.T) {
	t.Parallel()
	meter := machine.Start()
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; { //nolint:revive // the processor is to be used
	}
	load := meter.Stop([]time.Duration{3, 1, 2}, 400*time.Millisecond)
	assert.Equal(t, runtime.GOMAXPROCS(0), load.CPUs)
	assert.Equal(t, time.Duration(2), load.Late)
	assert.Equal(t, 100*time.Millisecond, load.MaxLate)
	if load.Measured {
		assert.Positive(t, load.Busy)
	} else {
		assert.NotContains(t, []string{"linux", "darwin"}, runtime.GOOS)
	}
}
