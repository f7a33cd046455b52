package retrybudget

import (
	"fmt"
	"strings"
)

// source is the policies that are kept in one place. A method has the first that
// is there of its own, its service's and the fallback.
type source struct {
	methods  map[string]variants
	fallback variants // zero when there is none
}

// variants are the settings of one policy, by what the method's descriptor says
// about its idempotency.
type variants [NonIdempotent + 1]*settings

func (s *source) policy(method string) (v variants, ok bool) {
	if v, ok := s.methods[method]; ok {
		return v, true
	}
	if i := strings.LastIndexByte(method, '/'); i > 0 {
		if v, ok := s.methods[method[:i+1]]; ok {
			return v, true
		}
	}
	return s.fallback, s.fallback[0] != nil
}

// policy returns the settings of a method whose descriptor says d: those of the
// first source that has some. The resolver is asked once an attempt has failed.
func (c *config) policy(method string, d *declaration) *settings {
	for _, s := range [...]*source{&c.code, &c.file} {
		if v, ok := s.policy(method); ok {
			return v[d.idempotency]
		}
	}
	if d.policy != nil || d.err != nil {
		return c.declaredPolicy(method, d)
	}
	return c.builtin[d.idempotency]
}

// declaredPolicy returns the settings of the method's option, which fail its
// calls when the option is invalid.
func (c *config) declaredPolicy(method string, d *declaration) *settings {
	s, err := settings{}, d.err
	if err == nil {
		s, err = c.compile(declaredOption, declaredOption+".idempotency_key", *d.policy)
	}
	s.cfg, s.declared = c, d.idempotency
	if err != nil {
		s.err = fmt.Errorf("%w (method option of %s)", err, method)
	}
	s.resolve()
	return &s
}

// compile returns the settings of a policy. field and key are how errors name it
// and its idempotency key.
func (c *config) compile(field, key string, p Policy) (settings, error) {
	s, err := p.compile(field)
	if err != nil {
		return settings{}, err
	}
	s.cfg = c
	if err := s.checkHeaders(); err != nil {
		return settings{}, fmt.Errorf("%w (%s)", err, key)
	}
	return s, nil
}

// withMode returns a copy of c in mode m.
func (c *config) withMode(m Mode) *config {
	next := *c
	next.mode = m
	next.builtin = c.builtin.of(&next)
	next.code = c.code.of(&next)
	next.file = c.file.of(&next)
	return &next
}

// of returns a copy of s that belongs to cfg.
func (s *source) of(cfg *config) source {
	next := source{methods: make(map[string]variants, len(s.methods)), fallback: s.fallback.of(cfg)}
	for name, v := range s.methods {
		next.methods[name] = v.of(cfg)
	}
	return next
}

// of returns a copy of v that belongs to cfg: settings name the configuration
// that they are part of.
func (v variants) of(cfg *config) variants {
	for i, s := range v {
		if s != nil {
			next := *s
			next.cfg = cfg
			v[i] = &next
		}
	}
	return v
}

// compilePolicies makes the configuration's sources of the policies collected.
func (b *builder) compilePolicies() {
	b.cfg.builtin = b.compile("Policy", "Policy.IdempotencyKey", Policy{})
	for _, s := range b.cfg.builtin {
		s.resolver = b.cfg.resolver
	}
	if b.policy != nil {
		b.cfg.code.fallback = b.compile("WithPolicy", "WithPolicy.IdempotencyKey", *b.policy)
	}
	b.cfg.code.methods = make(map[string]variants, len(b.methods))
	for name, p := range b.methods {
		field := "WithMethodPolicy " + name + ": Policy"
		b.cfg.code.methods[name] = b.compile(field, field+".IdempotencyKey", p)
	}
	if p := b.file.fallback; p != nil {
		b.cfg.file.fallback = b.compile("default_policy", "default_policy.idempotency_key", *p)
	}
	b.cfg.file.methods = make(map[string]variants, len(b.file.methods))
	for _, m := range b.file.methods {
		b.cfg.file.methods[m.name] = b.compile(m.path, m.path+".idempotency_key", m.policy)
	}
}

// compile returns the variants of a policy's settings.
func (b *builder) compile(field, key string, p Policy) (v variants) {
	s, err := b.cfg.compile(field, key, p)
	if err != nil {
		b.fail(err)
		s.cfg = &b.cfg
	}
	for declared := range v {
		next := s
		next.declared = Idempotency(declared)
		next.resolve()
		v[declared] = &next
	}
	return v
}
