package retrybudget

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// WithConfig configures the Retrier from a message, usually made of a file: by
// package config from YAML or JSON, by package serviceconfig from a gRPC service
// config. What the message leaves out has the library's default, and every other
// option of New outranks what it says, whatever their order. Two of them are an
// error.
//
// The policy of a method comes from the first of these that has one for it, and
// is used whole:
//
//  1. options of New: [WithMethodPolicy] for the method, for its service, then
//     [WithPolicy];
//  2. the message of WithConfig: methods for the method, for its service, then
//     default_policy;
//  3. the option (retrybudget.v1.retry) of the method in its .proto file;
//  4. the resolver's service config, with [WithResolverPolicies];
//  5. the zero [Policy].
//
// The options of a single call change single fields of that policy.
//
// Errors are [ConfigError]s, which name the place in the message. Method and
// service names that the program has no descriptor of are refused too, unless
// the message allows them: settings under a misspelt name would never be used.
// cfg is read by New and not kept.
func WithConfig(cfg *retrybudgetv1.Config) Option { return configOption{cfg} }

// configOption is a WithConfig. build applies it before all other options.
type configOption struct{ cfg *retrybudgetv1.Config }

func (configOption) apply(*builder) {}

// CheckConfig returns what is wrong with the values of cfg, one [ConfigError]
// for each, joined; nil if [WithConfig] accepts it. It does not look for method
// and service names, since the program that checks a configuration need not be
// the one that uses it.
func CheckConfig(cfg *retrybudgetv1.Config) error {
	var c checker
	c.config(cfg)
	return errors.Join(c.errs...)
}

// ConfigError is one invalid value of a [retrybudgetv1.Config].
type ConfigError struct {
	// Path is where the value is, in the names of the proto, such as
	// "methods[2].policy.max_attempts".
	Path string
	// Problem is the value and what is wrong with it.
	Problem string
}

// Error returns path and problem.
func (e *ConfigError) Error() string { return "retrybudget: " + e.Path + " " + e.Problem }

// checkedConfig is a Config in this package's own types.
type checkedConfig struct {
	fallback *Policy // nil without
	methods  []checkedPolicy
	budget   BudgetFactory // nil without
	mode     Mode
	limits   checkedLimits
	server   server
}

// checkedPolicy is the policy of a name, and where it was found.
type checkedPolicy struct {
	name   string
	policy Policy
	path   string // of the policy
}

func (c *checker) config(cfg *retrybudgetv1.Config) (to checkedConfig) {
	if cfg == nil {
		c.fail("Config", "is nil")
		return to
	}
	c.attemptHeader = c.attemptHeaderName("attempt_header", cfg.GetAttemptHeader())
	if p := cfg.GetDefaultPolicy(); p != nil {
		policy := c.policy("default_policy", p)
		to.fallback = &policy
	}
	to.methods = c.methods(cfg.GetMethods())
	to.budget = c.budgets(cfg.GetBudgets())
	to.mode = c.mode("mode", cfg.GetMode())
	to.limits = c.limits("limits", cfg.GetLimits())
	to.server = c.server("server", cfg.GetServer())
	return to
}

// applyConfig makes the message of a WithConfig the ground that other options
// build on.
func (b *builder) applyConfig(cfg *retrybudgetv1.Config) {
	if b.configured {
		b.fail(errors.New("retrybudget: WithConfig is given twice"))
		return
	}
	b.configured = true
	var c checker
	b.file = c.config(cfg)
	if !cfg.GetAllowUnknownMethods() {
		c.knownNames(cfg.GetMethods())
	}
	if len(c.errs) > 0 {
		b.errs = append(b.errs, c.errs...)
		b.file = checkedConfig{}
		return
	}
	if b.file.budget != nil {
		b.cfg.budget = b.file.budget
	}
	for _, m := range cfg.GetBudgets() {
		b.cfg.budgets = append(b.cfg.budgets, proto.CloneOf(m))
	}
	b.cfg.mode = b.file.mode
	b.cfg.strict = cfg.GetStrictIdempotency()
	b.cfg.strictNonIdempotent = cfg.GetWithoutNonIdempotentRetries()
	b.cfg.resolver = cfg.GetResolverPolicies()
	if c.attemptHeader != "" {
		b.cfg.attemptHeader = c.attemptHeader
	}
	b.file.limits.apply(b)
}

func (c *checker) methods(list []*retrybudgetv1.MethodPolicy) []checkedPolicy {
	var all []checkedPolicy
	first := map[string]string{}
	for i, m := range list {
		path := fmt.Sprintf("methods[%d]", i)
		if len(m.GetNames()) == 0 {
			c.fail(path+".names", "is empty: the policy would never be used")
		}
		if m.GetPolicy() == nil {
			c.fail(path+".policy", "is missing: {} stands for the library's defaults")
		}
		policy := c.policy(path+".policy", m.GetPolicy())
		for j, name := range m.GetNames() {
			at := fmt.Sprintf("%s.names[%d]", path, j)
			c.check(at, validateMethodName(at, name))
			if where, twice := first[name]; twice {
				c.fail(at, "%q is at %s too", name, where)
				continue
			}
			first[name] = at
			all = append(all, checkedPolicy{name: name, policy: policy, path: path + ".policy"})
		}
	}
	return all
}

// knownNames refuses names that the program has no descriptor of.
func (c *checker) knownNames(list []*retrybudgetv1.MethodPolicy) {
	for i, m := range list {
		for j, name := range m.GetNames() {
			at := fmt.Sprintf("methods[%d].names[%d]", i, j)
			if validateMethodName(at, name) != nil {
				continue
			}
			if _, method := hasDescriptor(name); !method {
				c.fail(at, "%q is not in this program: correct it, or set allow_unknown_methods", name)
			}
		}
	}
}

// hasDescriptor reports whether the program has the descriptor of the service in a
// valid name, and of the method, which a name of a service alone does not need.
func hasDescriptor(name string) (ofService, ofMethod bool) {
	service, method, _ := strings.Cut(name[1:], "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return false, false
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	return ok, ok && (method == "" || s.Methods().ByName(protoreflect.Name(method)) != nil)
}

func (c *checker) mode(path string, m retrybudgetv1.Mode) Mode {
	switch m {
	case retrybudgetv1.Mode_MODE_UNSPECIFIED, retrybudgetv1.Mode_MODE_ENFORCE:
		return Enforce
	case retrybudgetv1.Mode_MODE_OBSERVE:
		return Observe
	case retrybudgetv1.Mode_MODE_OFF:
		return Off
	default:
		c.fail(path, "%d is not a known mode", m)
		return Enforce
	}
}

// attemptHeaderName returns the name in lower case, "" for none or a bad one.
func (c *checker) attemptHeaderName(path, name string) string {
	name = strings.ToLower(name)
	if name == "" || name == attemptHeader {
		return name
	}
	if err := validateHeaderName(path, name); err != nil {
		c.check(path, err)
		return ""
	}
	return name
}

// checkedLimits are limits; what is zero was not given.
type checkedLimits struct {
	maxServerDelay          time.Duration
	maxKeys                 int
	replayCall, replayTotal *int
}

func (c *checker) limits(path string, m *retrybudgetv1.Limits) checkedLimits {
	l := checkedLimits{
		maxServerDelay: c.positive(path+".max_server_delay", m.GetMaxServerDelay()),
	}
	if m == nil {
		return l
	}
	l.maxKeys = c.count(path+".max_keys", m.MaxKeys, mostMaxKeys)
	l.replayCall = c.bytes(path+".replay_bytes_per_call", m.ReplayBytesPerCall)
	l.replayTotal = c.bytes(path+".replay_bytes_total", m.ReplayBytesTotal)
	return l
}

func (l checkedLimits) apply(b *builder) {
	if l.maxServerDelay > 0 {
		b.cfg.maxServerDelay = l.maxServerDelay
	}
	if l.maxKeys > 0 {
		b.maxKeys = l.maxKeys
	}
	if l.replayCall != nil {
		b.cfg.replayCall = *l.replayCall
	}
	if l.replayTotal != nil {
		b.cfg.replayTotal = *l.replayTotal
	}
}
