package retrybudget_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget"
)

// budgetLedger is a Budget that writes down what it is told, in order. It grants
// as many retries as its first field says, all when that is negative.
type budgetLedger struct {
	grants int

	mu    sync.Mutex
	lines []string
}

func (b *budgetLedger) write(format string, args ...any) {
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *budgetLedger) RecordSuccess() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write("success")
}

func (b *budgetLedger) RecordFailure(c retrybudget.Cause) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Veto {
		b.write("failure %v %d veto", c.Code, c.Attempt)
		return
	}
	b.write("failure %v %d", c.Code, c.Attempt)
}

func (b *budgetLedger) TryTake(c retrybudget.Cause) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grants == 0 {
		b.write("refuse %v %d", c.Code, c.Attempt)
		return false
	}
	b.grants--
	b.write("grant %v %d", c.Code, c.Attempt)
	return true
}

func (b *budgetLedger) Settle(c retrybudget.Cause, o retrybudget.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write("settle %v %d %v", c.Code, c.Attempt, o)
}

// read returns the lines written so far.
func (b *budgetLedger) read() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

// option puts the ledger in a Retrier.
func (b *budgetLedger) option() retrybudget.Option {
	return retrybudget.WithBudget(retrybudget.Shared(b))
}

// callJournal is an Observer that keeps every event.
type callJournal struct {
	mu       sync.Mutex
	retries  []retrybudget.RetryEvent
	refusals []retrybudget.RefusalEvent
	ended    []retrybudget.CallEvent
	warnings []retrybudget.WarningEvent
}

func (j *callJournal) RetrySent(e retrybudget.RetryEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.retries = append(j.retries, e)
}

func (j *callJournal) RetryRefused(e retrybudget.RefusalEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refusals = append(j.refusals, e)
}

func (j *callJournal) CallEnded(e retrybudget.CallEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Earlier = slices.Clone(e.Earlier)
	j.ended = append(j.ended, e)
}

func (j *callJournal) Warned(e retrybudget.WarningEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.warnings = append(j.warnings, e)
}

// reasons returns the reasons of the calls that ended, in order.
func (j *callJournal) reasons() []retrybudget.Reason {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []retrybudget.Reason
	for _, e := range j.ended {
		all = append(all, e.Reason)
	}
	return all
}

// attemptSeen is one attempt as an interceptor between the Retrier and the wire
// sees it.
type attemptSeen struct {
	ctx    context.Context
	n      int // counts the attempts that came through here, from 1
	method string
	reply  any
	cc     *grpc.ClientConn
	opts   []grpc.CallOption
	// send passes the attempt on, with the context it is given.
	send func(ctx context.Context) error
}

// inside returns the interceptor that runs f for each attempt. Its dial option
// comes after those of the Retrier.
func inside(f func(a attemptSeen) error) grpc.UnaryClientInterceptor {
	var mu sync.Mutex
	n := 0
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		mu.Lock()
		n++
		a := attemptSeen{ctx: ctx, n: n, method: method, reply: reply, cc: cc, opts: opts}
		mu.Unlock()
		a.send = func(ctx context.Context) error { return invoker(ctx, method, req, reply, cc, opts...) }
		return f(a)
	}
}

// with returns the dial options of r and, closer to the wire, an interceptor
// that runs f for each attempt.
func with(r *retrybudget.Retrier, f func(a attemptSeen) error) []grpc.DialOption {
	return append(r.DialOptions(), grpc.WithChainUnaryInterceptor(inside(f)))
}
