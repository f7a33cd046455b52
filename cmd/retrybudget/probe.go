package main

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrybudget/retrybudget"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// What a policy means is not decided here: a Retrier with that policy is asked, by
// calls that fail in memory. No call ever waits or leaves the process.

// probed is the name of the method that probes call. No program has it, so that
// nothing is known of it but what the policy says.
const probed = "/retrybudget.probe.Service/Method"

// setup is what decides about the calls of one method.
type setup struct {
	cfg    *retrybudgetv1.Config // for strict_idempotency and the like; may be nil
	policy *retrybudgetv1.Policy
	of     declared // what the method's descriptor says
}

// config returns a configuration with the policy for the probed method.
func (s setup) config() *retrybudgetv1.Config {
	p := proto.CloneOf(s.policy)
	if p.GetIdempotency() == retrybudgetv1.Idempotency_IDEMPOTENCY_UNSPECIFIED {
		p.Idempotency = s.of.idempotency
	}
	p.Timeout, p.PerAttemptTimeout = nil, nil
	p.Backoff = &retrybudgetv1.Policy_ConstantBackoff{ConstantBackoff: &durationpb.Duration{}}
	return &retrybudgetv1.Config{
		Methods:                     []*retrybudgetv1.MethodPolicy{{Names: []string{probed}, Policy: p}},
		StrictIdempotency:           s.cfg.GetStrictIdempotency(),
		WithoutNonIdempotentRetries: s.cfg.GetWithoutNonIdempotentRetries(),
		AllowUnknownMethods:         true,
	}
}

// anyNames returns cfg as a program accepts it that has none of its methods.
func anyNames(cfg *retrybudgetv1.Config) *retrybudgetv1.Config {
	cfg = proto.CloneOf(cfg)
	cfg.AllowUnknownMethods = true
	return cfg
}

// nothing is a budget that refuses: a retry that would be made ends the call with
// the reason budget, before any wait.
type nothing struct{}

func (nothing) RecordSuccess()                                    {}
func (nothing) RecordFailure(retrybudget.Cause)                   {}
func (nothing) TryTake(retrybudget.Cause) bool                    { return false }
func (nothing) Settle(_ retrybudget.Cause, _ retrybudget.Outcome) {}
func refuseAll() retrybudget.BudgetFactory                        { return retrybudget.Shared(nothing{}) }

// ending is how a probe ended.
type ending struct {
	retrybudget.NopObserver

	reason   retrybudget.Reason
	level    retrybudget.Idempotency
	attempts int
}

// CallEnded notes it.
func (e *ending) CallEnded(ev retrybudget.CallEvent) {
	e.reason, e.level, e.attempts = ev.Reason, ev.Call.Idempotency, ev.Call.Attempt
}

// fail calls the probed method, whose every attempt fails with err.
func (s setup) fail(err error, budget retrybudget.BudgetFactory) (ending, error) {
	var end ending
	r, newErr := retrybudget.New(retrybudget.WithConfig(s.config()), retrybudget.WithBudget(budget), retrybudget.WithObserver(&end))
	if newErr != nil {
		return ending{}, newErr
	}
	invoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return err }
	_ = r.UnaryClientInterceptor()(context.Background(), probed, nil, nil, nil, invoker) // err, or one that wraps it
	return end, nil
}

// answer is which failures of a method are retried.
type answer struct {
	level retrybudget.Idempotency
	// always are the codes that are retried, guided those that are retried when
	// the server says when to come back.
	always, guided []codes.Code
}

// ask asks about every code.
func (s setup) ask() (a answer, err error) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		plain, err := s.fail(status.Error(code, "probe"), refuseAll())
		if err != nil {
			return answer{}, err
		}
		a.level = plain.level
		if plain.reason == retrybudget.ReasonBudget {
			a.always = append(a.always, code)
			continue
		}
		told, err := s.fail(comeBack(code), refuseAll())
		if err != nil {
			return answer{}, err
		}
		if told.reason == retrybudget.ReasonBudget {
			a.guided = append(a.guided, code)
		}
	}
	return a, nil
}

// maxAttempts returns how many attempts a call may have.
func (s setup) maxAttempts() (int, error) {
	if n := s.policy.GetMaxAttempts(); n > 0 {
		return int(n), nil
	}
	end, err := s.withoutCodes().fail(status.Error(codes.Unavailable, "probe"), retrybudget.Unlimited())
	return end.attempts, err
}

// withoutCodes returns s for an idempotent method with the library's table, on
// which UNAVAILABLE is retried.
func (s setup) withoutCodes() setup {
	p := proto.CloneOf(s.policy)
	p.RetryableCodes = nil
	p.Idempotency = retrybudgetv1.Idempotency_IDEMPOTENCY_IDEMPOTENT
	s.policy = p
	return s
}

// comeBack returns a failure whose server says when to come back.
func comeBack(code codes.Code) error {
	st, err := status.New(code, "probe").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Nanosecond)})
	if err != nil {
		return err
	}
	return st.Err()
}
