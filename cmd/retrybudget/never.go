package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// neverRetries warns of a policy with which no call is retried, and of settings of
// it that are never used.
func (j *judge) neverRetries(s stated, answers []answer) {
	p := s.policy
	switch {
	case p.GetMaxAttempts() == 1 && j.file.kind == serviceConfig:
		j.warn("never-retries", s, "", "has no retryPolicy: %s is never retried", s.covers())
		return
	case p.GetMaxAttempts() == 1:
		j.warn("never-retries", s, "max_attempts", "1 never retries: the original is the first attempt")
		return
	}
	retried, guided, idempotent, protected, timeouts := false, false, false, false, false
	for _, a := range answers {
		timeouts = timeouts || slices.Contains(a.always, codes.DeadlineExceeded)
		retried = retried || len(a.always) > 0
		guided = guided || len(a.guided) > 0
		idempotent = idempotent || a.level == retrybudget.Idempotent
		protected = protected || a.level == retrybudget.NonIdempotent
	}
	switch {
	case !retried && !guided:
		j.warn("never-retries", s, "idempotency", "never retries: its methods count as non-idempotent, and without_non_idempotent_retries is set")
	case !retried && protected && len(p.GetRetryableCodes()) > 0:
		j.warn("never-retries", s, "retryable_codes", "are never used: its methods count as non-idempotent")
	case !retried && protected && p.GetIdempotency() == retrybudgetv1.Idempotency_IDEMPOTENCY_UNSPECIFIED:
		j.warn("never-retries", s, "", "hardly ever retries: with strict_idempotency its methods count as non-idempotent, and only a RESOURCE_EXHAUSTED whose server says when to come back is retried")
	}
	if len(p.GetIdempotentCodes()) > 0 && !idempotent {
		j.warn("never-retries", s, "idempotent_codes", "are never used: nothing %ssays that its methods are idempotent", j.within())
	}
	if p.GetPerAttemptTimeout().AsDuration() > 0 && !timeouts {
		j.warn("never-retries", s, "per_attempt_timeout", "ends attempts that are not retried: DEADLINE_EXCEEDED is no code of a retry here")
	}
	j.noTime(s)
}

// within limits what is said to this file, as long as that is all that is known.
func (j *judge) within() string {
	if j.protos == nil {
		return "in this file "
	}
	return ""
}

// noTime warns of waits and timeouts that leave no time for a second attempt.
func (j *judge) noTime(s stated) {
	timeout := s.policy.GetTimeout().AsDuration()
	if timeout <= 0 {
		return
	}
	if wait := waitsOf(s.policy).first(); wait >= timeout {
		field := "exponential_backoff"
		if s.policy.GetConstantBackoff() != nil {
			field = "constant_backoff"
		}
		j.warn("never-retries", s, field, "leaves no time for a retry: the first wait is at least %v, and the call has %v", wait, timeout)
	}
	if each := s.policy.GetPerAttemptTimeout().AsDuration(); each >= timeout {
		j.warn("never-retries", s, "per_attempt_timeout", "%v leaves no time for a retry after it: the call has %v", each, timeout)
	}
}

// unknownNames notes names that the descriptors do not have.
func (j *judge) unknownNames() {
	if j.protos == nil {
		return
	}
	s := isError
	if j.file.cfg.GetAllowUnknownMethods() {
		s = isWarning
	}
	for i, m := range j.file.cfg.GetMethods() {
		for k, name := range m.GetNames() {
			if j.protos.knows(name) {
				continue
			}
			at := j.top(fmt.Sprintf("methods[%d].names[%d]", i, k))
			if j.file.kind == serviceConfig {
				at = j.top(j.file.entry(name) + ".name")
			}
			j.note(s, "unknown-method", at, "", "%q is not in %s", name, j.protos.file)
		}
	}
}

// options judges the method options of the descriptors that are used beside the
// file.
func (j *judge) options() error {
	if j.protos == nil {
		return nil
	}
	for _, d := range j.protos.methods {
		if d.policy == nil {
			continue
		}
		s := stated{policy: d.policy, names: []string{d.name}, path: optionName + " of " + d.name}
		if problems := optionErrors(d.policy); len(problems) > 0 {
			for _, p := range problems {
				j.note(isError, "invalid", s, "", "%s", p)
			}
			continue
		}
		if len(j.methodsOf(s)) == 0 { // the file has a policy for it
			continue
		}
		if err := j.policy(s); err != nil {
			return err
		}
	}
	return nil
}

// optionErrors returns what is wrong with the policy of a method option.
func optionErrors(p *retrybudgetv1.Policy) []string {
	f := input{cfg: &retrybudgetv1.Config{DefaultPolicy: p}}
	f.failAll(usable(f.cfg))
	var all []string
	for _, p := range f.problems {
		all = append(all, strings.TrimSpace(strings.TrimPrefix(p.Path, "default_policy.")+" "+p.Message))
	}
	return all
}
