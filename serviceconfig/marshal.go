package serviceconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// Marshal returns cfg as a service config, for clients that do not use this
// library. A service config cannot say all that a Config can: lost names what it
// leaves out or says only in part, as "path: why", in the order of the fields.
// What [Parse] returned loses nothing, and comes back the same.
//
// A policy of one attempt, or of a method marked non-idempotent, becomes an entry
// without a retryPolicy. A policy without retryable_codes gets those of the
// library's table that do not depend on what the server says.
//
// cfg must be valid, as retrybudget.CheckConfig says. The error says what in it
// no service config may have.
func Marshal(cfg *retrybudgetv1.Config) (data []byte, lost []string, err error) {
	w := &writer{}
	var doc jsonConfig
	if p := cfg.GetDefaultPolicy(); p != nil {
		doc.MethodConfig = append(doc.MethodConfig, w.method("default_policy", []jsonName{{}}, p))
	}
	for i, m := range cfg.GetMethods() {
		var names []jsonName
		for j, name := range m.GetNames() {
			names = append(names, w.name(fmt.Sprintf("methods[%d].names[%d]", i, j), name))
		}
		doc.MethodConfig = append(doc.MethodConfig, w.method(fmt.Sprintf("methods[%d].policy", i), names, m.GetPolicy()))
	}
	doc.RetryThrottling = w.throttling(cfg.GetBudgets())
	w.rest(cfg.ProtoReflect(), "", "default_policy", "methods", "budgets")
	if len(w.errs) > 0 {
		return nil, nil, errors.Join(w.errs...)
	}
	data, err = encode(doc)
	if err == nil {
		_, err = Parse(data)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("retrybudget: the configuration is not valid as a service config: %w", err)
	}
	return data, w.lost, nil
}

// The parts of a service config, in the order in which they are written.
type (
	jsonConfig struct {
		MethodConfig    []jsonMethod    `json:"methodConfig,omitempty"`
		RetryThrottling *jsonThrottling `json:"retryThrottling,omitempty"`
	}
	jsonMethod struct {
		Name        []jsonName   `json:"name"`
		Timeout     string       `json:"timeout,omitempty"`
		RetryPolicy *jsonRetries `json:"retryPolicy,omitempty"`
	}
	jsonName struct {
		Service string `json:"service,omitempty"`
		Method  string `json:"method,omitempty"`
	}
	jsonRetries struct {
		MaxAttempts          uint32   `json:"maxAttempts"`
		InitialBackoff       string   `json:"initialBackoff"`
		MaxBackoff           string   `json:"maxBackoff"`
		BackoffMultiplier    float64  `json:"backoffMultiplier"`
		RetryableStatusCodes []string `json:"retryableStatusCodes"`
	}
	jsonThrottling struct {
		MaxTokens  uint32  `json:"maxTokens"`
		TokenRatio float64 `json:"tokenRatio"`
	}
)

func encode(doc jsonConfig) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(doc)
	return b.Bytes(), err
}

// writer collects what a service config cannot say.
type writer struct {
	lost []string
	errs []error
}

func (w *writer) lose(path, why string) { w.lost = append(w.lost, path+": "+why) }

func (w *writer) name(path, name string) jsonName {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[0] != "" || parts[1] == "" {
		w.errs = append(w.errs, fmt.Errorf("retrybudget: %s %q is neither \"/pkg.Service/Method\" nor \"/pkg.Service/\"", path, name))
		return jsonName{}
	}
	return jsonName{Service: parts[1], Method: parts[2]}
}

func (w *writer) method(path string, names []jsonName, p *retrybudgetv1.Policy) jsonMethod {
	m := jsonMethod{Name: names}
	if d := p.GetTimeout(); d.GetSeconds() != 0 || d.GetNanos() != 0 {
		m.Timeout = duration(d)
	}
	left := []string{"timeout", "max_attempts"}
	never := p.GetIdempotency() == retrybudgetv1.Idempotency_IDEMPOTENCY_NON_IDEMPOTENT && p.GetIdempotencyKey() == ""
	switch {
	case p.GetMaxAttempts() == 1:
	case never:
		w.lose(path+".idempotency", "written as no retries")
		left = append(left, "idempotency")
	default:
		m.RetryPolicy = w.retries(path, p)
		left = append(left, "exponential_backoff", "constant_backoff", "retryable_codes", "idempotent_codes", "idempotency")
	}
	w.rest(p.ProtoReflect(), path+".", left...)
	return m
}

// The library's table, without what depends on the server's word.
var (
	tableCodes      = []retrybudgetv1.Code{retrybudgetv1.Code_CODE_UNAVAILABLE}
	idempotentCodes = []retrybudgetv1.Code{
		retrybudgetv1.Code_CODE_UNAVAILABLE, retrybudgetv1.Code_CODE_DEADLINE_EXCEEDED, retrybudgetv1.Code_CODE_ABORTED,
	}
)

func (w *writer) retries(path string, p *retrybudgetv1.Policy) *jsonRetries {
	r := &jsonRetries{MaxAttempts: 3}
	if p.MaxAttempts != nil {
		r.MaxAttempts = p.GetMaxAttempts()
	}
	w.backoff(path, p, r)
	idempotent := p.GetIdempotency() == retrybudgetv1.Idempotency_IDEMPOTENCY_IDEMPOTENT || p.GetIdempotencyKey() != ""
	list := slices.Clone(p.GetRetryableCodes())
	switch {
	case len(list) > 0:
	case idempotent:
		list = slices.Clone(idempotentCodes)
	default:
		list = slices.Clone(tableCodes)
	}
	if len(p.GetRetryableCodes()) == 0 {
		w.lose(path+".retryable_codes", "the table also retries RESOURCE_EXHAUSTED when the server says when to come back")
	}
	switch {
	case idempotent:
		list = append(list, p.GetIdempotentCodes()...)
	case len(p.GetIdempotentCodes()) > 0:
		w.lose(path+".idempotent_codes", "left out, since the policy does not say that the method is idempotent")
	}
	if p.GetIdempotency() == retrybudgetv1.Idempotency_IDEMPOTENCY_IDEMPOTENT {
		w.lose(path+".idempotency", "left out, but for the codes that are retried because of it")
	}
	for _, code := range list {
		name := strings.TrimPrefix(code.String(), "CODE_")
		if !slices.Contains(r.RetryableStatusCodes, name) {
			r.RetryableStatusCodes = append(r.RetryableStatusCodes, name)
		}
	}
	return r
}

func (w *writer) backoff(path string, p *retrybudgetv1.Policy, r *jsonRetries) {
	if c := p.GetConstantBackoff(); c != nil {
		if c.GetSeconds() == 0 && c.GetNanos() == 0 {
			w.lose(path+".constant_backoff", "written as 1 ns, the least there can be")
			c = &durationpb.Duration{Nanos: 1}
		}
		w.lose(path+".constant_backoff", "gRPC's waits are a fifth longer or shorter")
		r.InitialBackoff, r.MaxBackoff, r.BackoffMultiplier = duration(c), duration(c), 1
		return
	}
	e := p.GetExponentialBackoff()
	initial, most := durationpb.New(50*time.Millisecond), durationpb.New(time.Second)
	if e.GetInitial() != nil {
		initial = e.GetInitial()
	}
	if initial.AsDuration() > most.AsDuration() {
		most = initial
	}
	if e.GetMax() != nil {
		most = e.GetMax()
	}
	r.InitialBackoff, r.MaxBackoff, r.BackoffMultiplier = duration(initial), duration(most), 2
	if e != nil && e.Multiplier != nil {
		r.BackoffMultiplier = e.GetMultiplier()
	}
	if e.GetJitter() != retrybudgetv1.Jitter_JITTER_A6 {
		w.lose(path+".exponential_backoff.jitter", "gRPC's waits are a fifth longer or shorter")
	}
}

func (w *writer) throttling(list []*retrybudgetv1.Budget) *jsonThrottling {
	var to *jsonThrottling
	for i, b := range list {
		path := fmt.Sprintf("budgets[%d]", i)
		t := b.GetThrottle()
		switch {
		case t == nil || to != nil:
			w.lose(path, "a service config can only have one throttle")
			continue
		case b.GetScope() != retrybudgetv1.Scope_SCOPE_PER_TARGET:
			w.lose(path+".scope", "gRPC has one throttle per target")
		}
		to = &jsonThrottling{MaxTokens: t.GetMaxTokens(), TokenRatio: t.GetTokenRatio()}
	}
	return to
}

// rest notes the fields of m that are set, besides those that are taken care of.
func (w *writer) rest(m protoreflect.Message, prefix string, done ...string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if m.Has(f) && !slices.Contains(done, string(f.Name())) {
			w.lose(prefix+string(f.Name()), "left out")
		}
	}
}

// duration returns d as proto JSON has it.
func duration(d *durationpb.Duration) string {
	text, err := protojson.Marshal(d)
	if err != nil {
		return "invalid"
	}
	return strings.Trim(string(text), `"`)
}
