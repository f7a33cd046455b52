package serviceconfig

import (
	"slices"
	"strings"

	"github.com/retrybudget/retrybudget/internal/spelling"
)

// settings are the names of retry settings. A key that nothing here reads must
// not be taken for one of them by whoever wrote it.
var settings = []string{
	"methodConfig", "timeout", "retryPolicy", "hedgingPolicy", "retryThrottling",
	"maxAttempts", "initialBackoff", "maxBackoff", "backoffMultiplier", "retryableStatusCodes",
	"maxTokens", "tokenRatio", "hedgingDelay", "nonFatalStatusCodes", "perAttemptRecvTimeout",
}

// hints are parts of names that only retry settings have.
var hints = []string{"retry", "retri", "backoff", "attempt", "hedg", "throttl", "pertry"}

// opaque are keys whose values belong to others, such as a load balancing policy
// with names of its own.
var opaque = []string{
	"loadBalancingPolicy", "loadBalancingConfig", "healthCheckConfig",
	"waitForReady", "maxRequestMessageBytes", "maxResponseMessageBytes",
}

// only refuses members of an object other than the known ones.
func (r *reader) only(v *value, known ...string) {
	for _, f := range v.fields {
		if slices.Contains(known, f.name) {
			continue
		}
		if name := spelling.Nearest(f.name, known); name != "" {
			r.fail(f.value, "is unknown: did you mean %s?", name)
		} else {
			r.fail(f.value, "is unknown: known here are %s", strings.Join(known, ", "))
		}
	}
}

// others lets members pass that are not known, unless they or what is in them
// look like retry settings.
func (r *reader) others(v *value, known ...string) {
	for _, f := range v.fields {
		switch {
		case slices.Contains(known, f.name):
		case slices.Contains(opaque, f.name):
			r.misplaced(f.value)
		default:
			r.stray(f, known)
		}
	}
}

// stray fails for a member that looks like a retry setting, and looks further
// inside one that does not.
func (r *reader) stray(f field, known []string) {
	if name := spelling.Nearest(f.name, known); name != "" {
		r.fail(f.value, "is unknown: did you mean %s?", name)
		return
	}
	if retryLike(f.name) {
		r.fail(f.value, "is not read here: it would have no effect")
		return
	}
	r.strays(f.value)
}

func (r *reader) strays(v *value) {
	for _, item := range v.items {
		r.strays(item)
	}
	for _, f := range v.fields {
		r.stray(f, nil)
	}
}

// misplaced fails for the settings of this package inside what belongs to others,
// where a wrong bracket may have put them.
func (r *reader) misplaced(v *value) {
	for _, item := range v.items {
		r.misplaced(item)
	}
	for _, f := range v.fields {
		switch f.name {
		case "methodConfig", "retryPolicy", "retryThrottling":
			r.fail(f.value, "is not read here: it would have no effect")
		default:
			r.misplaced(f.value)
		}
	}
}

func retryLike(name string) bool {
	plain := spelling.Letters(name)
	for _, h := range hints {
		if strings.Contains(plain, h) {
			return true
		}
	}
	return spelling.Nearest(name, settings) != ""
}
