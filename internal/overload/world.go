// Package overload is a small world under fake time in which budgets show what
// they do when a dependency fails: clients that call at random moments whatever
// happens, each a process with a Retrier of its own, and one server that is a
// pool of workers. Calls go through the real interceptor; only the wire is
// missing.
//
// It exists for its test, which prints the table of docs/budgets.md:
//
//	go -C internal/overload test -timeout 30m -run TestTable -seeds 5
package overload

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
)

// Scenario is a world: who calls, who answers, and what goes wrong between
// Warmup and Warmup + Fault.
type Scenario struct {
	Clients int
	Rate    float64 // calls per second of each client, over all methods
	Methods int     // each gets an equal share of the calls
	// Even replaces chance in the distances of calls and in the work of attempts
	// by its mean.
	Even bool
	// FirstSilent leaves out the calls of the first method, and nothing else
	// changes.
	FirstSilent bool
	Workers     int
	Mean        time.Duration // of the time a worker needs for an attempt
	// AttemptTimeout is how long a client waits for an answer; 0 means 200 ms.
	AttemptTimeout time.Duration
	// ShedBehind is the wait from which an attempt is answered UNAVAILABLE, which
	// takes ShedCost times the work of serving it. 0 means that nothing is shed.
	ShedBehind time.Duration
	ShedCost   float64

	// Warmup is the time before the fault, Fault that of the fault, After what
	// follows.
	Warmup, Fault, After time.Duration
	// Settling is the first part of the fault, left out of what is measured in
	// it.
	Settling time.Duration

	// In the fault:
	Fail []float64 // by method, the share of attempts answered UNAVAILABLE at once
	Away int       // how many workers are missing
	Slow float64   // how many times as long the work takes; 0 means 1
}

func (s Scenario) length() time.Duration { return s.Warmup + s.Fault + s.After }

// total is the normal rate of calls per second.
func (s Scenario) total() float64 { return float64(s.Clients) * s.Rate }

// How every client calls. Backoff is the library's default.
const (
	callTimeout    = time.Second
	attemptTimeout = 200 * time.Millisecond // unless the scenario says otherwise
	maxAttempts    = 3
)

// Strategy is what the clients do about failures.
type Strategy struct {
	Name string
	// Budget makes the budgets of one client.
	Budget func() retrybudget.BudgetFactory
}

// world is one run of a scenario.
type world struct {
	scenario Scenario
	seed     uint64
	methods  []string
	clients  []grpc.UnaryClientInterceptor
	start    time.Time
	server   server
	result   *Result
}

// Run lives the scenario through with clients of the given strategy and returns
// what happened. It must be called in a synctest bubble.
func Run(ctx context.Context, s Scenario, with Strategy, seed uint64) (*Result, error) {
	w := &world{scenario: s, seed: seed}
	w.result = &Result{
		scenario: s,
		fault:    window{s.Warmup, s.Warmup + s.Fault},
		measured: window{s.Warmup + s.Settling, s.Warmup + s.Fault},
		calls:    newBins(s.length()),
		good:     newBins(s.length()),
		attempts: newBins(s.length()),
		failed:   make([]atomic.Int64, s.Methods),
		masked:   make([]atomic.Int64, s.Methods),
	}
	w.server = newServer(s, w.result.fault)
	for m := range s.Methods {
		w.methods = append(w.methods, fmt.Sprintf("/overload.Service/Method%d", m))
	}
	for range s.Clients {
		r, err := retrybudget.New(options(s, with)...)
		if err != nil {
			return nil, err
		}
		w.clients = append(w.clients, r.UnaryClientInterceptor())
	}
	w.play(context.WithoutCancel(ctx))
	return w.result, nil
}

func options(s Scenario, with Strategy) []retrybudget.Option {
	timeout := s.AttemptTimeout
	if timeout == 0 {
		timeout = attemptTimeout
	}
	return []retrybudget.Option{
		retrybudget.WithBudget(with.Budget()),
		retrybudget.WithPolicy(retrybudget.Policy{
			MaxAttempts:       maxAttempts,
			PerAttemptTimeout: timeout,
			Idempotency:       retrybudget.Idempotent,
		}),
	}
}

// play starts every call at its moment, whatever became of those before it, and
// returns when the last one has ended. The calls of all clients together are one
// Poisson process, each of them a client's at random: so are those of a client.
func (w *world) play(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	// Goroutines are used again: the stack of one that made a call has grown.
	idle := make(chan *request)
	defer close(idle)
	w.start = time.Now()
	at := time.Duration(0)
	for n := uint64(0); ; n++ {
		at += time.Duration(w.chance(n, 0, drawGap) / w.scenario.total() * float64(time.Second))
		if at >= w.scenario.length() {
			return
		}
		r := &request{call: n, method: int(draw(w.seed, n, 0, drawMethod) * float64(w.scenario.Methods))}
		if w.scenario.FirstSilent && r.method == 0 {
			continue
		}
		time.Sleep(at - w.now())
		select {
		case idle <- r:
		default:
			running.Go(func() {
				w.call(ctx, r)
				for r := range idle {
					w.call(ctx, r)
				}
			})
		}
	}
}

// chance returns an exponentially distributed number of mean 1.
func (w *world) chance(call uint64, attempt int, what uint64) float64 {
	if w.scenario.Even {
		return 1
	}
	return exponential(draw(w.seed, call, attempt, what))
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// request is what travels instead of a message, and remembers the call.
type request struct {
	call        uint64
	method      int
	attempts    int
	firstFailed bool
}

// call is one call of the application.
func (w *world) call(ctx context.Context, r *request) {
	started := w.now()
	client := w.clients[int(draw(w.seed, r.call, 0, drawClient)*float64(w.scenario.Clients))]
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	err := client(ctx, w.methods[r.method], r, nil, nil, w.attempt)

	w.result.calls.add(started)
	if err == nil {
		w.result.good.add(started)
	}
	if r.firstFailed && w.result.measured.holds(started) {
		w.result.failed[r.method].Add(1)
		if err == nil {
			w.result.masked[r.method].Add(1)
		}
	}
}

var (
	errUnavailable = status.Error(codes.Unavailable, "the dependency is unavailable")
	errTimeout     = status.Error(codes.DeadlineExceeded, "context deadline exceeded")
)

// attempt is the invoker: one attempt, from the moment it is sent until it is
// answered or its client gives up. What the server has begun it finishes anyway.
func (w *world) attempt(ctx context.Context, _ string, req, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
	r := req.(*request) //nolint:errcheck // of w.call
	r.attempts++
	now := w.now()
	w.result.attempts.add(now)
	err := w.serve(ctx, r, now)
	if err != nil && r.attempts == 1 {
		r.firstFailed = true
	}
	return err
}

func (w *world) serve(ctx context.Context, r *request, now time.Duration) error {
	s := &w.scenario
	if s.Fail != nil && w.result.fault.holds(now) && draw(w.seed, r.call, r.attempts, drawFate) < s.Fail[r.method] {
		return errUnavailable
	}
	work := float64(s.Mean) * (0.5 + 0.5*w.chance(r.call, r.attempts, drawWork))
	finished, served := w.server.accept(now, time.Duration(work))
	end := w.start.Add(finished)
	if deadline, ok := ctx.Deadline(); ok && !end.Before(deadline) {
		<-ctx.Done()
		return errTimeout
	}
	time.Sleep(time.Until(end))
	if !served {
		return errUnavailable
	}
	return nil
}
