package retrybudget

import (
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The trailers in which a server guides its clients' retries.
const (
	// pushbackTrailer is gRFC A6's pushback.
	pushbackTrailer = "grpc-retry-pushback-ms"
	// exhaustedTrailer is this library's hint that the server's own retries
	// were refused by its budget while it served the call.
	exhaustedTrailer = "retrybudget-exhausted"
)

// guidance is what the answer to a failed attempt says about retrying. The zero
// value says nothing.
type guidance struct {
	// veto: do not retry. pushback: retry after exactly delay. Never both.
	veto, pushback bool
	delay          time.Duration
	// retryInfo is the least wait that google.rpc.RetryInfo asks for, 0 when
	// absent.
	retryInfo time.Duration
	// exhausted is this library's hint.
	exhausted bool
}

// toldWhen reports whether the server said when to come back.
func (g *guidance) toldWhen() bool { return g.pushback || g.retryInfo > 0 }

// serverDelay is the wait that the server asks for. Pushback wins.
func (g *guidance) serverDelay() time.Duration {
	if g.pushback {
		return g.delay
	}
	return g.retryInfo
}

func readGuidance(trailer metadata.MD, st *status.Status) guidance {
	g := guidance{retryInfo: retryInfoDelay(st)}
	g.delay, g.pushback, g.veto = parsePushback(trailer[pushbackTrailer])
	// Gateways pass trailers on, so that one may be there several times.
	g.exhausted = slices.Contains(trailer[exhaustedTrailer], "1")
	return g
}

// parsePushback reads the values of grpc-retry-pushback-ms. gRFC A6: one ASCII
// signed 32-bit decimal without leading zeros or plus sign is a wait in
// milliseconds; anything else that is there, and a negative number, is a veto.
func parsePushback(values []string) (delay time.Duration, ok, veto bool) {
	if len(values) == 0 {
		return 0, false, false
	}
	if len(values) > 1 {
		return 0, false, true
	}
	v := values[0]
	ms, err := strconv.ParseInt(v, 10, 32)
	if err != nil || ms < 0 || strconv.FormatInt(ms, 10) != v {
		return 0, false, true
	}
	return time.Duration(ms) * time.Millisecond, true, false
}

// retryInfoDelay returns the longest delay among the status's
// google.rpc.RetryInfo details; 0 when there is none, or none that is a valid
// positive duration.
func retryInfoDelay(st *status.Status) time.Duration {
	var longest time.Duration
	for _, detail := range st.Details() {
		info, ok := detail.(*errdetails.RetryInfo)
		if !ok || info.GetRetryDelay().CheckValid() != nil {
			continue
		}
		longest = max(longest, info.GetRetryDelay().AsDuration())
	}
	return longest
}
