package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// settings lists the fields of the policy, each with the place that sets it.
func (e *explained) settings(s search, used stated, of declared, attempts int) {
	p := used.policy
	e.set("max attempts", fmt.Sprint(attempts), used.source("max_attempts", p.MaxAttempts != nil))
	backoff := "exponential_backoff"
	if p.GetConstantBackoff() != nil {
		backoff = "constant_backoff"
	}
	e.set("backoff", waitsOf(p).String(), used.backoffSource(backoff))
	e.set("idempotency", e.Idempotency, s.idempotencySource(used, of))
	e.set("retryable codes", orNone(protoCodes(p.GetRetryableCodes()), "the library's table"), used.source("retryable_codes", len(p.GetRetryableCodes()) > 0))
	e.set("idempotent codes", orNone(protoCodes(p.GetIdempotentCodes()), "none"), used.source("idempotent_codes", len(p.GetIdempotentCodes()) > 0))
	e.set("idempotency key", cmp.Or(p.GetIdempotencyKey(), "none"), used.source("idempotency_key", p.GetIdempotencyKey() != ""))
	e.set("per-attempt timeout", orNone(p.GetPerAttemptTimeout().AsDuration().String(), "none"), used.source("per_attempt_timeout", p.PerAttemptTimeout != nil))
	e.set("timeout", orNone(p.GetTimeout().AsDuration().String(), "none"), used.source("timeout", p.Timeout != nil))
}

func (e *explained) set(name, value, source string) {
	e.Settings = append(e.Settings, settingValue{name, value, source})
}

// source returns where a field is set, "default" if it is not.
func (s stated) source(field string, set bool) string {
	switch {
	case !set:
		return "default"
	case s.file == nil:
		return optionName
	default:
		return fmt.Sprintf("%s:%d", s.file.name, s.line(field))
	}
}

// backoffSource also says which parts of the backoff are defaults.
func (s stated) backoffSource(field string) string {
	set := s.policy.GetBackoff() != nil
	source := s.source(field, set)
	b := s.policy.GetExponentialBackoff()
	if !set || b == nil {
		return source
	}
	var defaults []string
	for _, part := range []struct {
		name string
		set  bool
	}{
		{"initial", b.Initial != nil},
		{"multiplier", b.Multiplier != nil},
		{"max", b.Max != nil},
		{"jitter", b.GetJitter() != retrybudgetv1.Jitter_JITTER_UNSPECIFIED},
	} {
		if !part.set {
			defaults = append(defaults, part.name)
		}
	}
	if len(defaults) == 0 {
		return source
	}
	return source + "; default: " + strings.Join(defaults, ", ")
}

// idempotencySource says what decided about the method's idempotency, in the order
// of the library.
func (s search) idempotencySource(used stated, of declared) string {
	p := used.policy
	switch {
	case p.GetIdempotencyKey() != "":
		return used.source("idempotency_key", true) + ", idempotency key"
	case p.GetIdempotency() != retrybudgetv1.Idempotency_IDEMPOTENCY_UNSPECIFIED:
		return used.source("idempotency", true)
	case of.source != "":
		return of.source + " in " + s.protos.file
	case s.file.cfg.GetStrictIdempotency():
		return fmt.Sprintf("%s:%d, strict_idempotency", s.file.name, s.file.line("strict_idempotency"))
	case s.protos == nil:
		return "default; -descriptors may know"
	default:
		return "default"
	}
}

func protoCodes(list []retrybudgetv1.Code) string {
	var all []string
	for _, code := range list {
		all = append(all, strings.TrimPrefix(code.String(), "CODE_"))
	}
	return strings.Join(all, ", ")
}

func orNone(text, none string) string {
	if text == "" || text == "0s" {
		return none
	}
	return text
}

// print writes it for people.
func (e *explained) print(out io.Writer) {
	fields := [][2]string{{"policy", e.Policy}, {"  for", e.For}}
	for i, other := range e.PassedOver {
		fields = append(fields, [2]string{first(i, "  passed over"), other})
	}
	fields = append(fields, [2]string{})
	width := 0
	for _, s := range e.Settings {
		width = max(width, utf8.RuneCountInString(s.Value))
	}
	for _, s := range e.Settings {
		fields = append(fields, [2]string{s.Name, fmt.Sprintf("%-*s  %s", min(width, 50), s.Value, s.Source)})
	}
	fields = append(fields, [2]string{})
	for i, line := range e.retried() {
		fields = append(fields, [2]string{first(i, "retried after"), line})
	}
	for i, w := range e.Waits {
		fields = append(fields, [2]string{first(i, "waits"), fmt.Sprintf("attempt %d: %s", w.Attempt, w.span())})
	}
	for i, b := range e.Budgets {
		fields = append(fields, [2]string{first(i, "budget"), fmt.Sprintf("%s; %s", b, b.Source)})
	}
	fields = append(fields, [2]string{})
	fmt.Fprintln(out, e.Method)
	writeFields(out, fields)
	for _, n := range e.Notes {
		fmt.Fprintln(out, "note: "+n)
	}
}

// retried says in lines which codes are retried.
func (e *explained) retried() (lines []string) {
	if len(e.Retried) > 0 {
		lines = append(lines, strings.Join(e.Retried, ", "))
	}
	if len(e.IfTold) > 0 {
		lines = append(lines, strings.Join(e.IfTold, ", ")+", if the server says when to come back")
	}
	if len(lines) == 0 {
		lines = append(lines, "nothing")
	}
	return lines
}

func (w waitSpan) span() string {
	if w.Least == w.Most {
		return w.Most
	}
	return w.Least + ".." + w.Most
}

// first returns a name for the first of several values.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}
