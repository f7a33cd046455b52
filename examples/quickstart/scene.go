package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// timeout is the deadline that the application gives its call.
const timeout = 2 * time.Second

// scene is one call, and how it should end.
type scene struct {
	title  string
	tokens int // in the budget before the call
	call   func(ctx context.Context, client quickstartv1.InventoryServiceClient) (string, error)

	attempts int                // that the server sees
	reason   retrybudget.Reason // why the call failed, NoReason if it does not
}

// outcome is what a scene showed: the server's side and the caller's.
type outcome struct {
	seen   []attempt
	answer string
	err    error
	budget retrybudget.BudgetInfo
}

// play starts a server, connects to it through a Retrier, and makes the call.
func (s scene) play(ctx context.Context) (outcome, error) {
	inventory := &inventory{}
	address, stop, err := serve(ctx, inventory)
	if err != nil {
		return outcome{}, err
	}
	defer stop()

	// All that an application adds to its own code is here.
	r, err := retrybudget.New(
		retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{Initial: s.tokens})),
	)
	if err != nil {
		return outcome{}, err
	}
	conn, err := grpc.NewClient(address,
		append(r.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return outcome{}, err
	}
	defer conn.Close()

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var o outcome
	o.answer, o.err = s.call(ctx, quickstartv1.NewInventoryServiceClient(conn))
	o.seen = inventory.attempts()
	for b := range r.Budgets() { // one, because one method was called
		o.budget = b
	}
	return o, nil
}

// check says what is not as it should be.
func (s scene) check(o outcome) error {
	if len(o.seen) != s.attempts {
		return fmt.Errorf("the server saw %d attempts, not %d", len(o.seen), s.attempts)
	}
	left := timeout
	for i, a := range o.seen {
		header := ""
		if i > 0 {
			header = strconv.Itoa(i)
		}
		if a.previous != header {
			return fmt.Errorf("attempt %d came with header value %q, not %q", i+1, a.previous, header)
		}
		if a.left <= 0 || a.left > left {
			return fmt.Errorf("attempt %d had %v left, not more than 0 and at most %v", i+1, a.left, left)
		}
		left = a.left
	}
	if tokens := float64(s.tokens - (s.attempts - 1)); o.budget.Tokens != tokens {
		return fmt.Errorf("%v tokens are left, not %v", o.budget.Tokens, tokens)
	}
	return s.checkError(o.err)
}

func (s scene) checkError(err error) error {
	if s.reason == retrybudget.NoReason {
		return err
	}
	if reason := reasonOf(err); reason != s.reason {
		return fmt.Errorf("the call ended with reason %q, not %q: %w", reason, s.reason, err)
	}
	if code := status.Code(err); code != codes.Unavailable {
		return fmt.Errorf("the call returned %v, not the server's Unavailable: %w", code, err)
	}
	return nil
}

// reasonOf returns why a call ended, NoReason for errors that are not this
// library's.
func reasonOf(err error) retrybudget.Reason {
	if e, ok := errors.AsType[*retrybudget.Error](err); ok {
		return e.Reason
	}
	return retrybudget.NoReason
}
