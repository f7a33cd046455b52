package breaker_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget/examples/breaker"
)

func TestSettings_whatCountsAgainstTheDependency(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err               error
		answered, givenUp bool
	}{
		{nil, true, false},
		{status.Error(codes.NotFound, ""), true, false},
		{status.Error(codes.Unavailable, ""), false, false},
		{status.Error(codes.DeadlineExceeded, ""), false, false},
		{status.Error(codes.Canceled, ""), true, true},
		{errors.New("no status"), false, false},
	} {
		assert.Equal(t, c.answered, breaker.Answered(c.err), "%v", c.err)
		assert.Equal(t, c.givenUp, breaker.GivenUp(c.err), "%v", c.err)
	}
}
