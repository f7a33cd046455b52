package serviceconfig

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// Parse returns the retry settings of a service config, in which every method has
// the policy that gRPC would apply:
//
//   - An entry of methodConfig becomes an entry of methods, or default_policy for
//     the name {}. Its timeout becomes the policy's, which covers the whole call.
//     Waits have the jitter of gRFC A6, a fifth up or down.
//   - An entry without a retryPolicy becomes a policy of one attempt: gRPC does not
//     retry these methods. Methods that no entry names have no policy here, so
//     that they get one from elsewhere, in the end the library's default.
//   - retryThrottling becomes a throttle of each target. Without it the budget is
//     left to the library's default, where gRPC would have none.
//
// The error joins all that was found, each an [Error].
func Parse(data []byte, opts ...Option) (*retrybudgetv1.Config, error) {
	r := &reader{mostAttempts: math.MaxInt32, named: map[string]string{}}
	for _, o := range opts {
		o.apply(r)
	}
	if root := r.parse(data); root != nil {
		r.root(root)
	}
	if len(r.errs) > 0 {
		slices.SortStableFunc(r.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
		var all []error
		for _, e := range r.errs {
			all = append(all, e)
		}
		return nil, errors.Join(all...)
	}
	return &r.cfg, nil
}

// reader builds a Config of a service config and collects what is wrong.
type reader struct {
	cfg          retrybudgetv1.Config
	mostAttempts uint32
	named        map[string]string // where a name was first
	errs         []*Error
}

func (r *reader) fail(v *value, format string, args ...any) {
	r.failAt(v.path, v.line, format, args...)
}

func (r *reader) failAt(path string, line int, format string, args ...any) {
	r.errs = append(r.errs, &Error{Path: path, Line: line, Problem: fmt.Sprintf(format, args...)})
}

// is reports whether v is of a kind, and fails otherwise.
func (r *reader) is(v *value, want kind) bool {
	if v.kind != want {
		r.fail(v, "is %s, not %s", v.kind, want)
	}
	return v.kind == want
}

func (r *reader) root(v *value) {
	if v.kind != isObject {
		r.failAt("", v.line, "is %s, not an object", v.kind)
		return
	}
	if key := ownKey(v); key != nil {
		r.fail(key, "is unknown: %s", isOwn)
		return
	}
	r.others(v, "methodConfig", "retryThrottling")
	if t := v.get("retryThrottling"); t != nil {
		r.throttling(t)
	}
	list := v.get("methodConfig")
	if list == nil || !r.is(list, isArray) {
		return
	}
	for _, entry := range list.items {
		if r.is(entry, isObject) {
			r.method(entry)
		}
	}
}

// method reads an entry of methodConfig.
func (r *reader) method(v *value) {
	r.others(v, "name", "timeout", "retryPolicy", "hedgingPolicy")
	if h := v.get("hedgingPolicy"); h != nil {
		r.fail(h, "is not supported: no hedged attempts are sent")
	}
	policy := &retrybudgetv1.Policy{MaxAttempts: new(uint32(1))}
	if p := v.get("retryPolicy"); p != nil && r.is(p, isObject) {
		policy = r.policy(p)
	}
	if d := v.get("timeout"); d != nil {
		policy.Timeout = r.positive(d)
	}
	names, fallback := r.names(v)
	if fallback {
		r.cfg.DefaultPolicy = proto.CloneOf(policy)
	}
	if len(names) > 0 {
		r.cfg.Methods = append(r.cfg.Methods, &retrybudgetv1.MethodPolicy{Names: names, Policy: policy})
	}
}

// names returns the methods and services that an entry is for, and whether it is
// for all others.
func (r *reader) names(entry *value) (names []string, fallback bool) {
	list := entry.get("name")
	if list != nil && !r.is(list, isArray) {
		return nil, false
	}
	if list == nil || len(list.items) == 0 {
		if entry.get("retryPolicy") != nil || entry.get("timeout") != nil {
			r.failAt(join(entry.path, "name"), entry.line, "is missing: the entry is for no method")
		}
		return nil, false
	}
	for _, v := range list.items {
		name, ok := r.name(v)
		if !ok {
			continue
		}
		if at, twice := r.named[name]; twice {
			r.fail(v, "names the same as %s", at)
			continue
		}
		r.named[name] = v.path
		if name == "" {
			fallback = true
		} else {
			names = append(names, name)
		}
	}
	return names, fallback
}

// name returns a name as Config has it, "" for all methods.
func (r *reader) name(v *value) (name string, ok bool) {
	if !r.is(v, isObject) {
		return "", false
	}
	r.only(v, "service", "method")
	var part [2]string
	for i, key := range []string{"service", "method"} {
		p := v.get(key)
		if p == nil {
			continue
		}
		if !r.is(p, isString) {
			return "", false
		}
		if part[i] = p.text; strings.Contains(p.text, "/") {
			r.fail(p, "%q contains a slash", p.text)
			return "", false
		}
	}
	switch {
	case part[0] == "" && part[1] == "":
		return "", true
	case part[0] == "":
		r.fail(v, "has a method but no service")
		return "", false
	}
	return "/" + part[0] + "/" + part[1], true
}

func (r *reader) policy(v *value) *retrybudgetv1.Policy {
	keys := []string{"maxAttempts", "initialBackoff", "maxBackoff", "backoffMultiplier", "retryableStatusCodes"}
	r.only(v, keys...)
	if !r.all(v, keys...) {
		return &retrybudgetv1.Policy{}
	}
	initial, most := r.positive(v.get("initialBackoff")), r.positive(v.get("maxBackoff"))
	if initial != nil && most != nil && most.AsDuration() < initial.AsDuration() {
		r.fail(v.get("maxBackoff"), "%v is below initialBackoff %v", most.AsDuration(), initial.AsDuration())
	}
	return &retrybudgetv1.Policy{
		MaxAttempts: new(r.attempts(v.get("maxAttempts"))),
		Backoff: &retrybudgetv1.Policy_ExponentialBackoff{ExponentialBackoff: &retrybudgetv1.ExponentialBackoff{
			Initial:    initial,
			Max:        most,
			Multiplier: new(r.number(v.get("backoffMultiplier"), 1, 1_000_000)),
			Jitter:     retrybudgetv1.Jitter_JITTER_A6,
		}},
		RetryableCodes: r.codes(v.get("retryableStatusCodes")),
	}
}

func (r *reader) attempts(v *value) uint32 {
	n := r.integer(v, 2, math.MaxInt32)
	return min(n, r.mostAttempts)
}

func (r *reader) throttling(v *value) {
	if !r.is(v, isObject) {
		return
	}
	r.only(v, "maxTokens", "tokenRatio")
	if !r.all(v, "maxTokens", "tokenRatio") {
		return
	}
	most, ratio := v.get("maxTokens"), v.get("tokenRatio")
	if most.text == "1" || most.text == "2" {
		r.fail(most, "%s can never grant a retry: one failure leaves no more than half of it; the least is 3", most.text)
	}
	// gRFC A6: decimals after the third are ignored.
	thousandths := math.Floor(r.number(ratio, 0.001, 1000)*1000 + 1e-9)
	r.cfg.Budgets = []*retrybudgetv1.Budget{{
		Scope: retrybudgetv1.Scope_SCOPE_PER_TARGET,
		Kind: &retrybudgetv1.Budget_Throttle{Throttle: &retrybudgetv1.Throttle{
			MaxTokens:  new(r.integer(most, 1, 1000)),
			TokenRatio: new(thousandths / 1000),
		}},
	}}
}

// all reports whether v has all the keys, and fails for each that is missing.
func (r *reader) all(v *value, keys ...string) bool {
	ok := true
	for _, key := range keys {
		if v.get(key) == nil {
			r.failAt(join(v.path, key), v.line, "is missing")
			ok = false
		}
	}
	return ok
}
