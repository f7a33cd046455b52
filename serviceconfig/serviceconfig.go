// Package serviceconfig reads the retry settings of a gRPC service config, the
// JSON that clients get from their resolver or from grpc.WithDefaultServiceConfig
// (gRFC A6), and writes them:
//
//	cfg, err := serviceconfig.Parse(data)
//	…
//	r, err := retrybudget.New(retrybudget.WithConfig(cfg))
//
// What is read: methodConfig with name, timeout and retryPolicy, and
// retryThrottling. What belongs to load balancing, health checking or message
// sizes passes by. A key that looks like a retry setting but is unknown, misspelt
// or in the wrong place is an error, because gRPC itself would ignore it without
// a word; so is one that occurs twice.
//
// Values are read as gRFC A6 says, with these differences:
//
//   - maxAttempts is not reduced to five, unless [CapAttempts] asks for it.
//   - Settings that cannot work, or that were hardly meant, are errors: maxTokens
//     1 and 2, with which no retry is ever made; OK among the codes; maxBackoff
//     below initialBackoff; a backoffMultiplier below 1 or above 1,000,000; a
//     tokenRatio above 1000; a timeout that is not positive.
//   - hedgingPolicy is an error: nothing here sends hedged attempts.
//
// Package serviceconfig needs no connection and depends on protobuf alone.
package serviceconfig

import (
	"fmt"
)

// Error is something in a service config that cannot be used.
type Error struct {
	// Path is where it is, such as "methodConfig[0].retryPolicy.maxAttempts";
	// empty for the document as a whole.
	Path string
	// Line is the line in the JSON text, counted from 1.
	Line int
	// Problem says what is wrong, with the value.
	Problem string
}

// Error returns line, path and problem.
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("retrybudget: service config, line %d: %s", e.Line, e.Problem)
	}
	return fmt.Sprintf("retrybudget: service config, line %d: %s %s", e.Line, e.Path, e.Problem)
}

// Option changes how [Parse] reads a service config.
type Option interface {
	apply(r *reader)
}

type optionFunc func(*reader)

func (f optionFunc) apply(r *reader) { f(r) }

// CapAttempts makes values of maxAttempts above five count as five, as gRFC A6
// says and gRPC's own retries do. The default is to take them as they are.
func CapAttempts() Option {
	return optionFunc(func(r *reader) { r.mostAttempts = 5 })
}
