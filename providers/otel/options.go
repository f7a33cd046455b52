package otel

import "fmt"

// defaultMaxKeys leaves room for seven outcomes of each method under the 2,000
// attribute sets that the SDK keeps of an instrument by default.
const defaultMaxKeys = 256

// longestMethod is, in bytes, the longest name of a method that is told apart. It is
// more than a name needs.
const longestMethod = 512

// Option configures a [Metrics] at construction.
type Option interface{ apply(*settings) error }

type option func(*settings) error

func (o option) apply(s *settings) error { return o(s) }

type settings struct{ maxKeys int }

// WithMaxKeys bounds the number of (target, method) pairs that are told apart,
// since a proxy's method names are chosen by its clients. The first n to be seen
// are; all others together, and methods whose names are longer than 512 bytes, have
// the method _OTHER and no server. Default 256, which leaves room for seven outcomes
// of each under the 2,000 attribute sets that the SDK keeps of an instrument by
// default. [NewMetrics] fails if n is less than 1.
func WithMaxKeys(n int) Option {
	return option(func(s *settings) error {
		if n < 1 {
			return fmt.Errorf("retrybudget: otel.WithMaxKeys %d is not at least 1", n)
		}
		s.maxKeys = n
		return nil
	})
}
