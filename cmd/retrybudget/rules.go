package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// findings returns what is wrong or dangerous in a file that could be read.
func (c *checker) findings(f *input) ([]finding, error) {
	j := judge{checker: c, file: f}
	j.unknownNames()
	j.mode()
	if err := j.budgets(); err != nil {
		return nil, err
	}
	if f.kind == ownConfig && f.cfg.GetDefaultPolicy() == nil {
		if err := j.product(stated{policy: &retrybudgetv1.Policy{}, file: f, path: "default_policy"}); err != nil {
			return nil, err
		}
	}
	for _, s := range f.policies() {
		if err := j.policy(s); err != nil {
			return nil, err
		}
	}
	if err := j.options(); err != nil {
		return nil, err
	}
	return j.found, nil
}

// judge collects the findings of one file.
type judge struct {
	*checker

	file  *input
	found []finding
}

func (j *judge) note(s severity, kind string, of stated, field, format string, args ...any) {
	if s == isWarning && slices.Contains(j.allow, kind) {
		return
	}
	f := finding{File: j.file.name, Severity: s, Kind: kind, Message: fmt.Sprintf(format, args...)}
	switch {
	case of.file == nil:
		f.File, f.Path = j.protos.file, of.path
	case field == "" || !j.file.has(of.where(field)):
		f.Path, f.Line = of.path, j.file.line(of.path)
	default:
		f.Path, f.Line = of.where(field), of.line(field)
	}
	j.found = append(j.found, f)
}

func (j *judge) warn(kind string, of stated, field, format string, args ...any) {
	j.note(isWarning, kind, of, field, format, args...)
}

// top is the place of a setting that is in no policy.
func (j *judge) top(path string) stated { return stated{file: j.file, path: path} }

func (j *judge) mode() {
	switch j.file.cfg.GetMode() {
	case retrybudgetv1.Mode_MODE_OFF:
		j.warn("never-retries", j.top("mode"), "", "off: no call is retried")
	case retrybudgetv1.Mode_MODE_OBSERVE:
		j.warn("no-budget", j.top("mode"), "", "observe: the budget only reports, every retry is made")
	default:
	}
}

// seldom is a ratio below which more than a hundred successes pay for a retry.
const seldom = 0.01

func (j *judge) budgets() error {
	all, err := j.file.allowances()
	if err != nil {
		return err
	}
	retries := slices.ContainsFunc(j.file.policies(), func(s stated) bool { return s.policy.GetMaxAttempts() != 1 })
	if j.file.kind == serviceConfig && len(j.file.cfg.GetBudgets()) == 0 && retries {
		j.warn("no-budget", j.top("retryThrottling"), "", "is missing: gRPC's own clients retry without a budget (with this library its default applies)")
	}
	for i, a := range all {
		at := j.top(j.file.budgetPath(i))
		switch {
		case a.Kind == "unlimited":
			j.warn("no-budget", at, "unlimited", "grants every retry")
		case a.Initial < 1 && a.Ratio < seldom:
			j.warn("small-budget", at, "token_bucket", "holds nothing at the start and %v a success: the first retry comes after %.0f successful calls", a.Ratio, 1/a.Ratio)
		}
	}
	return nil
}

// policy judges a policy by what is known of the methods that it is for.
func (j *judge) policy(s stated) error {
	byLevel := map[retrybudgetv1.Idempotency][]string{}
	var streams []string
	for _, d := range j.methodsOf(s) {
		byLevel[d.idempotency] = append(byLevel[d.idempotency], d.name)
		if d.streams {
			streams = append(streams, d.name)
		}
	}
	if timeout := s.policy.GetTimeout().AsDuration(); timeout > 0 && len(streams) > 0 {
		j.warn("stream-timeout", s, "timeout", "ends every stream of %s after %v, also one that goes well", stated{names: streams}.covers(), timeout)
	}
	if len(byLevel) == 0 { // without descriptors, or for no method that they have
		byLevel[retrybudgetv1.Idempotency_IDEMPOTENCY_UNSPECIFIED] = nil
	}
	var answers []answer
	retried := false
	for _, level := range slices.Sorted(maps.Keys(byLevel)) {
		a, err := setup{j.file.cfg, s.policy, declared{idempotency: level}}.ask()
		if err != nil {
			return err
		}
		answers = append(answers, a)
		retried = retried || len(a.always) > 0
		if a.level == retrybudget.Idempotent {
			continue
		}
		if err := j.unsafe(s, a, byLevel[level]); err != nil {
			return err
		}
	}
	j.pointless(s, answers)
	j.neverRetries(s, answers)
	if !retried {
		return nil
	}
	return j.product(s)
}

// methodsOf returns the methods of the descriptors that have the policy.
func (j *judge) methodsOf(s stated) (all []declared) {
	if j.protos == nil {
		return nil
	}
	for _, d := range j.protos.methods {
		first := search{file: j.file, protos: j.protos}.candidates(d.name)[0]
		if first.policy == s.policy {
			all = append(all, d)
		}
	}
	return all
}

func (j *judge) product(s stated) error {
	n, err := setup{policy: s.policy}.maxAttempts()
	if err != nil {
		return err
	}
	if product := math.Pow(float64(n), float64(j.layers)); product > j.maxProduct {
		j.warn("product", s, "max_attempts", "of %d in %s multiplies to %.0f for one call when everything fails, unless a budget bounds it: above %v",
			n, plural(j.layers, "layer"), product, j.maxProduct)
	}
	return nil
}

// answered are codes that are an answer: the same request gets it again.
var answered = []codes.Code{
	codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
	codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated,
}

// unsafe warns of codes that the library's table does not retry on methods of
// unknown idempotency.
func (j *judge) unsafe(s stated, a answer, methods []string) error {
	table, err := setup{policy: &retrybudgetv1.Policy{}}.ask()
	if err != nil {
		return err
	}
	var applied []codes.Code
	quota := false
	for _, code := range a.always {
		switch {
		case slices.Contains(table.always, code) || slices.Contains(answered, code):
		case slices.Contains(table.guided, code):
			quota = true
		default:
			applied = append(applied, code)
		}
	}
	of := "methods not marked idempotent in this file"
	if len(methods) > 0 {
		of = stated{names: methods}.covers() + ", not marked idempotent"
	}
	if len(applied) > 0 {
		j.warn("unsafe-codes", s, "retryable_codes", "retries %s of %s: the call may have been applied", codeNames(applied), of)
	}
	if quota {
		j.warn("unsafe-codes", s, "retryable_codes", "retries RESOURCE_EXHAUSTED of %s even if the server does not say when to come back: a quota may be used up for long", of)
	}
	return nil
}

func (j *judge) pointless(s stated, answers []answer) {
	var all []codes.Code
	for _, code := range answered {
		for _, a := range answers {
			if slices.Contains(a.always, code) && !slices.Contains(all, code) {
				all = append(all, code)
			}
		}
	}
	if len(all) > 0 {
		j.warn("pointless-codes", s, "retryable_codes", "retries %s: an answer that the same request gets again", codeNames(all))
	}
}

// codeNames returns the names of codes as files have them.
func codeNames(list []codes.Code) string {
	var all []string
	for _, code := range list {
		all = append(all, strings.TrimPrefix(retrybudgetv1.Code(code).String(), "CODE_"))
	}
	return strings.Join(all, ", ")
}
