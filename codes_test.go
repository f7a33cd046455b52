package retrybudget_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// retried names the failures that are retried on methods of one idempotency:
// those that always are, and those that are when the server says when to come
// back. "timeout" is an attempt that its own timeout ended.
type retried struct{ always, whenTold string }

// What the documentation promises, written out. allCodes is every code but OK.
const allCodes = "Canceled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists PermissionDenied ResourceExhausted FailedPrecondition Aborted OutOfRange Unimplemented Internal Unavailable DataLoss Unauthenticated"

var classification = []struct {
	name       string
	policy     retrybudget.Policy
	options    []retrybudget.Option
	idempotent retried
	unknown    retried
	not        retried
}{
	{
		name:       "table",
		idempotent: retried{"DeadlineExceeded Aborted Unavailable timeout", "ResourceExhausted"},
		unknown:    retried{"Unavailable", "ResourceExhausted"},
		not:        retried{"", "ResourceExhausted"},
	},
	{
		name:       "strict idempotency",
		options:    []retrybudget.Option{retrybudget.WithStrictIdempotency()},
		idempotent: retried{"DeadlineExceeded Aborted Unavailable timeout", "ResourceExhausted"},
		unknown:    retried{"", "ResourceExhausted"},
		not:        retried{"", "ResourceExhausted"},
	},
	{
		name:       "never what is not idempotent",
		options:    []retrybudget.Option{retrybudget.WithoutNonIdempotentRetries()},
		idempotent: retried{"DeadlineExceeded Aborted Unavailable timeout", "ResourceExhausted"},
		unknown:    retried{"Unavailable", "ResourceExhausted"},
	},
	{
		name:       "both strict options",
		options:    []retrybudget.Option{retrybudget.WithoutNonIdempotentRetries(), retrybudget.WithStrictIdempotency()},
		idempotent: retried{"DeadlineExceeded Aborted Unavailable timeout", "ResourceExhausted"},
	},
	{
		name:       "list without RESOURCE_EXHAUSTED",
		policy:     retrybudget.Policy{RetryableCodes: []codes.Code{codes.Unavailable}},
		idempotent: retried{"Unavailable", ""},
		unknown:    retried{"Unavailable", ""},
		not:        retried{"", "ResourceExhausted"},
	},
	{
		name:       "list with it",
		policy:     retrybudget.Policy{RetryableCodes: []codes.Code{codes.ResourceExhausted, codes.NotFound, codes.Canceled}},
		idempotent: retried{"Canceled NotFound ResourceExhausted", ""},
		unknown:    retried{"Canceled NotFound ResourceExhausted", ""},
		not:        retried{"", "ResourceExhausted"},
	},
	{
		name:       "list with timeouts",
		policy:     retrybudget.Policy{RetryableCodes: []codes.Code{codes.DeadlineExceeded}},
		idempotent: retried{"DeadlineExceeded timeout", ""},
		unknown:    retried{"DeadlineExceeded timeout", ""},
		not:        retried{"", "ResourceExhausted"},
	},
	{
		name: "list of all",
		policy: retrybudget.Policy{RetryableCodes: []codes.Code{
			codes.Canceled, codes.Unknown, codes.InvalidArgument, codes.DeadlineExceeded, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.ResourceExhausted,
			codes.FailedPrecondition, codes.Aborted, codes.OutOfRange, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss, codes.Unauthenticated,
		}},
		idempotent: retried{allCodes + " timeout", ""},
		unknown:    retried{allCodes + " timeout", ""},
		not:        retried{"", "ResourceExhausted"},
	},
	{
		name:       "more for idempotent methods",
		policy:     retrybudget.Policy{IdempotentCodes: []codes.Code{codes.Internal, codes.ResourceExhausted}},
		idempotent: retried{"DeadlineExceeded ResourceExhausted Aborted Internal Unavailable timeout", ""},
		unknown:    retried{"Unavailable", "ResourceExhausted"},
		not:        retried{"", "ResourceExhausted"},
	},
	{
		name:       "both lists",
		policy:     retrybudget.Policy{RetryableCodes: []codes.Code{codes.Unavailable}, IdempotentCodes: []codes.Code{codes.DeadlineExceeded}},
		idempotent: retried{"DeadlineExceeded Unavailable timeout", ""},
		unknown:    retried{"Unavailable", ""},
		not:        retried{"", "ResourceExhausted"},
	},
	{
		name:       "list, never what is not idempotent",
		policy:     retrybudget.Policy{RetryableCodes: []codes.Code{codes.ResourceExhausted}},
		options:    []retrybudget.Option{retrybudget.WithoutNonIdempotentRetries()},
		idempotent: retried{"ResourceExhausted", ""},
		unknown:    retried{"ResourceExhausted", ""},
	},
	{
		name:       "list, strict idempotency",
		policy:     retrybudget.Policy{RetryableCodes: []codes.Code{codes.Unavailable}, IdempotentCodes: []codes.Code{codes.Aborted}},
		options:    []retrybudget.Option{retrybudget.WithStrictIdempotency()},
		idempotent: retried{"Aborted Unavailable", ""},
		unknown:    retried{"", "ResourceExhausted"},
		not:        retried{"", "ResourceExhausted"},
	},
}

// guidances are the ways in which a server says nothing, or when to come back.
var guidances = []struct {
	name string
	told bool
	step func(codes.Code) rpctest.Step
}{
	{"none", false, func(c codes.Code) rpctest.Step { return rpctest.Fail(c, "no") }},
	{"RetryInfo", true, func(c codes.Code) rpctest.Step { return rpctest.RetryInfo(c, time.Millisecond) }},
	{"pushback", true, func(c codes.Code) rpctest.Step { return rpctest.Pushback(rpctest.Fail(c, "no"), "7") }},
	{"pushback of zero", true, func(c codes.Code) rpctest.Step { return rpctest.Pushback(rpctest.Fail(c, "no"), "0") }},
	// These two say nothing that could be followed.
	{"RetryInfo of zero", false, func(c codes.Code) rpctest.Step { return rpctest.RetryInfo(c, 0) }},
	{"negative RetryInfo", false, func(c codes.Code) rpctest.Step { return rpctest.RetryInfo(c, -time.Second) }},
}

func TestClassification(t *testing.T) {
	t.Parallel()
	for _, tt := range classification {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := tt.policy
				p.Backoff, p.PerAttemptTimeout = retrybudget.ConstantBackoff(0), time.Second
				s := rpctest.New()
				cc := s.Dial(t, newRetrier(t, append(tt.options, retrybudget.WithPolicy(p))...).DialOptions()...)
				for level, want := range []retried{retrybudget.IdempotencyUnknown: tt.unknown, retrybudget.Idempotent: tt.idempotent, retrybudget.NonIdempotent: tt.not} {
					level := retrybudget.Idempotency(level)
					timeout := oneRetry(t, s, cc, rpctest.Hang(), level)
					assert.Equal(t, strings.Contains(want.always, "timeout"), timeout, "%v, attempt timeout", level)
					assert.False(t, oneRetry(t, s, cc, rpctest.Pushback(rpctest.OK(), "0"), level), "%v, OK", level)
					for _, g := range guidances {
						expected := fields(want.always)
						if g.told {
							expected = append(expected, fields(want.whenTold)...)
						}
						var got []string
						for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
							if oneRetry(t, s, cc, g.step(code), level) {
								got = append(got, code.String())
							}
						}
						assert.ElementsMatch(t, expected, got, "%v, guidance %s", level, g.name)
					}
				}
			})
		})
	}
}

// fields returns the codes among the words.
func fields(words string) (list []string) {
	for w := range strings.FieldsSeq(words) {
		if w != "timeout" {
			list = append(list, w)
		}
	}
	return list
}

// oneRetry reports whether a call whose first attempt meets step is retried, by
// what arrives at the server.
func oneRetry(t *testing.T, s *rpctest.Server, cc *grpc.ClientConn, step rpctest.Step, level retrybudget.Idempotency) bool {
	t.Helper()
	method := fmt.Sprintf("/test.Codes/%d", s.Attempts(""))
	s.Script(method, step, rpctest.OK())
	err := rpctest.CallMethod(t.Context(), cc, method, retrybudget.CallIdempotency(level))
	switch n := s.AttemptsOf(method); {
	case n == 1:
		return false
	case n == 2 && err == nil:
		return true
	default:
		t.Errorf("%d attempts end in %v", n, err)
		return false
	}
}

// Codes that gRPC does not define must not be taken for one that it does: 30 and
// 46 are UNAVAILABLE in their lowest four and five bits.
func TestClassification_codesOutsideTheSpecification(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		l := s.Start(t)
		unavailable := []codes.Code{codes.Unavailable}
		for _, p := range []retrybudget.Policy{{}, {RetryableCodes: unavailable}, {IdempotentCodes: unavailable}} {
			cc := l.Dial(t, newRetrier(t, retrybudget.WithPolicy(p)).DialOptions()...)
			for _, code := range []codes.Code{17, 30, codes.Unavailable + 32, 1000} {
				assert.False(t, oneRetry(t, s, cc, rpctest.Fail(code, "no"), retrybudget.Idempotent), "code %d", code)
			}
			assert.True(t, oneRetry(t, s, cc, rpctest.Fail(codes.Unavailable, "no"), retrybudget.Idempotent))
		}
	})
}

func TestClassifier_verdicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		verdict retrybudget.Verdict
		code    codes.Code
		level   retrybudget.Idempotency
		list    []codes.Code
		want    bool
	}{
		{"retry what the table does not", retrybudget.Retry, codes.NotFound, retrybudget.IdempotencyUnknown, nil, true},
		{"retry what is not idempotent", retrybudget.Retry, codes.Unavailable, retrybudget.NonIdempotent, nil, true},
		{"retry what the list does not", retrybudget.Retry, codes.Internal, retrybudget.IdempotencyUnknown, []codes.Code{codes.Unavailable}, true},
		{"no retry against the table", retrybudget.NoRetry, codes.Unavailable, retrybudget.Idempotent, nil, false},
		{"no retry against the list", retrybudget.NoRetry, codes.Internal, retrybudget.Idempotent, []codes.Code{codes.Internal}, false},
		{"by default, in the table", retrybudget.ByDefault, codes.Unavailable, retrybudget.IdempotencyUnknown, nil, true},
		{"by default, not in the table", retrybudget.ByDefault, codes.NotFound, retrybudget.IdempotencyUnknown, nil, false},
		{"by default, in the list", retrybudget.ByDefault, codes.NotFound, retrybudget.IdempotencyUnknown, []codes.Code{codes.NotFound}, true},
		{"by default, not in the list", retrybudget.ByDefault, codes.Unavailable, retrybudget.IdempotencyUnknown, []codes.Code{codes.NotFound}, false},
		{"none of the verdicts is the default", retrybudget.Verdict(99), codes.Unavailable, retrybudget.IdempotencyUnknown, nil, true},
		{"none of the verdicts, not in the table", retrybudget.Verdict(99), codes.NotFound, retrybudget.IdempotencyUnknown, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				r := newRetrier(t,
					retrybudget.WithPolicy(retrybudget.Policy{RetryableCodes: tt.list}),
					retrybudget.WithClassifier(func(retrybudget.CallInfo, error) retrybudget.Verdict { return tt.verdict }))
				cc := s.Dial(t, r.DialOptions()...)
				assert.Equal(t, tt.want, oneRetry(t, s, cc, rpctest.Fail(tt.code, "no"), tt.level))
			})
		})
	}
}

func TestClassifier_seesTheCallAndTheWholeError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.RetryInfo(codes.FailedPrecondition, time.Second), rpctest.Fail(codes.DataLoss, "gone"))
		var attempts []int
		r := newRetrier(t,
			retrybudget.WithPolicy(retrybudget.Policy{Timeout: time.Minute, Idempotency: retrybudget.NonIdempotent}),
			retrybudget.WithClassifier(func(c retrybudget.CallInfo, err error) retrybudget.Verdict {
				attempts = append(attempts, c.Attempt)
				assert.Equal(t, rpctest.Method, c.Method)
				assert.Equal(t, "passthrough:///bufnet", c.Target)
				assert.Equal(t, retrybudget.NonIdempotent, c.Idempotency)
				_, bounded := c.Context.Deadline()
				assert.True(t, bounded, "the context with Policy.Timeout")
				for _, d := range status.Convert(err).Details() {
					if _, ok := d.(*errdetails.RetryInfo); ok {
						return retrybudget.Retry
					}
				}
				return retrybudget.NoRetry
			}))
		cc := s.Dial(t, r.DialOptions()...)

		err := rpctest.Call(t.Context(), cc)

		assert.Equal(t, []int{1, 2}, attempts)
		assert.Equal(t, status.Error(codes.DataLoss, "gone").Error(), err.Error())
		assert.GreaterOrEqual(t, s.Gaps("")[0], time.Second, "guidance still counts")
	})
}

func TestClassifier_doesNotOverrideTheRest(t *testing.T) {
	t.Parallel()
	always := retrybudget.WithClassifier(func(retrybudget.CallInfo, error) retrybudget.Verdict { return retrybudget.Retry })
	for _, tt := range []struct {
		name     string
		step     rpctest.Step
		options  []retrybudget.Option
		attempts int
		want     error
	}{
		{"attempts", rpctest.Fail(codes.NotFound, ""), nil, 3, retrybudget.ErrAttemptsExhausted},
		{"pushback", rpctest.Pushback(rpctest.Fail(codes.NotFound, ""), "-1"), nil, 1, retrybudget.ErrPushback},
		{"budget", rpctest.Fail(codes.NotFound, ""), []retrybudget.Option{retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{}))}, 1, retrybudget.ErrBudgetExhausted},
		{"caller", rpctest.Hang(), nil, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.step)
				cc := s.Dial(t, newRetrier(t, append(tt.options, always)...).DialOptions()...)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := rpctest.Call(ctx, cc)
				require.Error(t, err)
				assert.Equal(t, tt.attempts, s.Attempts(""))
				if tt.want != nil {
					assert.ErrorIs(t, err, tt.want)
				}
			})
		})
	}
}

func TestClassifier_notAskedInVain(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"success":                 nil,
		"marked as final":         retrybudget.Final(status.Error(codes.Unavailable, "open circuit")),
		"can never succeed":       status.Error(codes.ResourceExhausted, "trying to send message larger than max (10240 vs. 1024)"),
		"closed connection":       status.Error(codes.Canceled, "grpc: the client connection is closing"),
		"the caller has given up": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			r := newRetrier(t, retrybudget.WithClassifier(func(_ retrybudget.CallInfo, err error) retrybudget.Verdict {
				t.Errorf("asked about %v", err)
				return retrybudget.Retry
			}))
			attempts := 0
			err := r.UnaryClientInterceptor()(ctx, rpctest.Method, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				attempts++
				if answer == context.Canceled {
					cancel()
				}
				return answer
			})
			cancel()
			assert.Equal(t, 1, attempts)
			assert.Equal(t, answer == nil, err == nil)
		})
	}
}
