package main

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

func TestProgress_plainLinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testDefaults("overload", true)
		c.Rate = 10
		w := &world{strategy: strategies[1]}
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 11*time.Second)
		defer cancel()
		time.AfterFunc(time.Second, func() {
			for range 100 {
				w.arrivals.Note()
			}
		})
		terminal.Progress[*live](&out)(ctx, &live{story: storyOf(c), start: time.Now(), rate: c.Rate, worlds: []*world{w}})
		assert.Equal(t, `a story of 15.5s; numbers are the load on each strategy's server, 1.0 is one attempt for each call
  0.0 s  healthy
  3.0 s  fault: 60 % capacity
  5.0 s    naive 2.0
  5.6 s  capacity is back
 10.0 s    naive 0.0
`, out.String())
	})
}
