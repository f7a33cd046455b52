package retrybudget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// What a message's policy becomes. The kinds of jitter differ only in how their
// waits are spread, so from outside it would take many calls to tell them apart.
func TestPolicy_ofAMessage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Policy{
		``:                                  {},
		`max_attempts: 7`:                   {MaxAttempts: 7},
		`exponential_backoff {}`:            {Backoff: ExponentialBackoff{}},
		`constant_backoff { nanos: 5 }`:     {Backoff: ConstantBackoff(5)},
		`retryable_codes: [1, 14, 16]`:      {RetryableCodes: []codes.Code{codes.Canceled, codes.Unavailable, codes.Unauthenticated}},
		`idempotent_codes: CODE_DATA_LOSS`:  {IdempotentCodes: []codes.Code{codes.DataLoss}},
		`idempotency: 0`:                    {Idempotency: IdempotencyUnknown},
		`idempotency: 1`:                    {Idempotency: Idempotent},
		`idempotency: 2`:                    {Idempotency: NonIdempotent},
		`idempotency_key: "Request-ID"`:     {IdempotencyKey: "request-id"},
		`per_attempt_timeout { seconds: 2}`: {PerAttemptTimeout: 2 * time.Second},
		`timeout { nanos: 3 }`:              {Timeout: 3},
		`exponential_backoff { initial { seconds: 2 } multiplier: 1.5 max { seconds: 9 } }`: {
			Backoff: ExponentialBackoff{Initial: 2 * time.Second, Multiplier: 1.5, Max: 9 * time.Second},
		},
		`exponential_backoff { jitter: JITTER_UNSPECIFIED }`:  {Backoff: ExponentialBackoff{Jitter: JitterFull}},
		`exponential_backoff { jitter: JITTER_FULL }`:         {Backoff: ExponentialBackoff{Jitter: JitterFull}},
		`exponential_backoff { jitter: JITTER_NONE }`:         {Backoff: ExponentialBackoff{Jitter: JitterNone}},
		`exponential_backoff { jitter: JITTER_A6 }`:           {Backoff: ExponentialBackoff{Jitter: JitterA6}},
		`exponential_backoff { jitter: JITTER_EQUAL }`:        {Backoff: ExponentialBackoff{Jitter: JitterEqual}},
		`exponential_backoff { jitter: JITTER_DECORRELATED }`: {Backoff: ExponentialBackoff{Jitter: JitterDecorrelated}},
	} {
		m := &retrybudgetv1.Policy{}
		require.NoError(t, prototext.Unmarshal([]byte(text), m), text)
		var c checker
		assert.Equal(t, want, c.policy("p", m), text)
		assert.Empty(t, c.errs, text)
	}
}

// The enum of codes has gRPC's own numbers and names.
func TestCode_isGRPCs(t *testing.T) {
	t.Parallel()
	assert.Len(t, retrybudgetv1.Code_name, int(maxCode)+1)
	for c := codes.Canceled; c <= maxCode; c++ {
		var named codes.Code
		name := retrybudgetv1.Code(c).String()[len("CODE_"):]
		require.NoError(t, named.UnmarshalJSON([]byte(`"`+name+`"`)), name)
		assert.Equal(t, c, named, name)
	}
}
