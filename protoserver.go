package retrybudget

import (
	"fmt"
	"slices"
	"strings"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// WithServerConfig configures a server interceptor from the server part of the
// message that [WithConfig] takes. Every other server option outranks it. The
// rest of the message is checked as well, so that it is refused as a whole.
func WithServerConfig(cfg *retrybudgetv1.Config) ServerOption { return serverConfigOption{cfg} }

// serverConfigOption is a WithServerConfig. newServer applies it before all
// other options.
type serverConfigOption struct{ cfg *retrybudgetv1.Config }

func (serverConfigOption) applyServer(*server) {}

func (s *server) applyConfig(cfg *retrybudgetv1.Config) {
	var c checker
	from := c.config(cfg).server
	s.errs = append(s.errs, c.errs...)
	if from.hinted != 0 {
		s.hinted = from.hinted
	}
	s.pushback = from.pushback
	s.headers = append(slices.Clip(s.headers), from.headers...)
}

// server converts the server part; a code set of zero was not given.
func (c *checker) server(path string, m *retrybudgetv1.Server) (s server) {
	for _, code := range c.codes(path+".hint_codes", m.GetHintCodes()) {
		s.hinted |= 1 << code
	}
	s.pushback = m.GetPushbackHint()
	for i, name := range m.GetAttemptHeaders() {
		at := fmt.Sprintf("%s.attempt_headers[%d]", path, i)
		name = strings.ToLower(name)
		if name != attemptHeader {
			c.check(at, validateHeaderName(at, name))
		}
		s.headers = append(s.headers, attemptCounter{name, 0})
	}
	return s
}
