// Package streammodel_test drives streams of all four kinds at random through
// the interceptor and compares what happened with a simple model of it.
package streammodel_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestMain makes a normal run 500 plans instead of rapid's 100.
func TestMain(m *testing.M) {
	if os.Getenv("RAPID_CHECKS") == "" {
		if err := flag.Set("rapid.checks", "500"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestStream runs random plans: what the application does, what the server does
// in each attempt, and the settings. Client and server are grpc-go's; time is
// that of a testing/synctest bubble, one for each run.
//
// A normal run has 500 plans, a few seconds under the race detector. More:
//
//	RAPID_CHECKS=20000 go test ./streammodel
//	go test -race -timeout=2m -v ./streammodel -rapid.checks=10000000   # as many as fit
//
// A failure is shrunk as far as it comes again: goroutines that run at the same
// instant may do so in another order the next time. What happened in the last
// run that failed is printed in any case; the line "To reproduce" has the flags
// that run it again.
func TestStream(t *testing.T) { //nolint:paralleltest // it counts goroutines
	var all tally
	failed := ""
	defer func() {
		if failed != "" {
			t.Log(failed)
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Custom(drawPlan).Draw(t, "plan")
		rapid.SyncTest(t, func(t *rapid.T) {
			w := &world{plan: p}
			wrong := w.run(t)
			all.add(w)
			if len(wrong) > 0 {
				failed = fmt.Sprintf("the last run that failed: %#v\n%s", p, w.story())
				t.Fatalf("%s", wrong[0])
			}
		})
	})
	t.Log(all.String())
	if all.runs >= 100 {
		assert.Positive(t, all.replayed, "attempts that got a replay")
		assert.Positive(t, all.timedOut, "attempt timeouts")
	}
}
