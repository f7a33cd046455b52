package retrybudget

import (
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// checker converts messages and collects what is wrong with them.
type checker struct {
	errs []error
	// attemptHeader is that of the Config, which no idempotency key may have.
	attemptHeader string
}

func (c *checker) fail(path, format string, args ...any) {
	c.errs = append(c.errs, &ConfigError{Path: path, Problem: fmt.Sprintf(format, args...)})
}

// check takes the error of a validator that was told path as the field's name.
func (c *checker) check(path string, err error) {
	if err != nil {
		c.fail(path, "%s", strings.TrimPrefix(err.Error(), "retrybudget: "+path+" "))
	}
}

// count returns a number from 1 to most, and 0 if there is none.
func (c *checker) count(path string, n *uint32, most uint32) int {
	switch {
	case n == nil:
		return 0
	case *n == 0:
		c.fail(path, "0 is not in 1..%d: leave it out for the default", most)
		return 0
	case *n > most:
		c.fail(path, "%d is not in 1..%d", *n, most)
		return 0
	}
	return int(*n)
}

func (c *checker) bytes(path string, n *uint32) *int {
	if n == nil {
		return nil
	}
	if *n > math.MaxInt32 {
		c.fail(path, "%d is not in 0..%d", *n, math.MaxInt32)
		return nil
	}
	size := int(*n)
	return &size
}

// ratio returns a whole number of thousandths up to most, and 0 if there is
// none.
func (c *checker) ratio(path string, v *float64, most float64) float64 {
	if v == nil {
		return 0
	}
	if _, err := inThousandths(*v, most); err != nil {
		c.fail(path, "%s", err)
		return 0
	}
	return *v
}

// duration returns a duration that is not negative, and 0 if there is none.
func (c *checker) duration(path string, m *durationpb.Duration) time.Duration {
	if m == nil {
		return 0
	}
	if err := m.CheckValid(); err != nil {
		c.fail(path, "of %d s and %d ns is not a valid duration", m.GetSeconds(), m.GetNanos())
		return 0
	}
	d := m.AsDuration()
	switch {
	case d < 0:
		c.fail(path, "%v is negative", d)
		return 0
	case m.GetSeconds() > math.MaxInt64/int64(time.Second):
		c.fail(path, "of %d s is longer than 292 years", m.GetSeconds())
		return 0
	}
	return d
}

// positive returns a duration that is more than zero, and 0 if there is none.
func (c *checker) positive(path string, m *durationpb.Duration) time.Duration {
	if m != nil && m.GetSeconds() == 0 && m.GetNanos() == 0 {
		c.fail(path, "0s is not positive: leave it out for the default")
		return 0
	}
	return c.duration(path, m)
}

// within returns a duration from least to most, and 0 if there is none.
func (c *checker) within(path string, d, least, most time.Duration) time.Duration {
	if d != 0 && (d < least || d > most) {
		c.fail(path, "%v is not in %v..%v", d, least, most)
		return 0
	}
	return d
}
