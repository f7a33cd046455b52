package retrybudget_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrybudget/retrybudget"
)

// door is a server that sheds retries, with requests that knock.
type door struct {
	full  atomic.Bool
	enter grpc.UnaryServerInterceptor
	runs  int
}

func newDoor() *door {
	d := new(door)
	d.full.Store(true)
	d.enter = retrybudget.UnaryServerInterceptor(retrybudget.WithRetryShedding(func(context.Context) bool { return d.full.Load() }))
	return d
}

// answer is what became of a request.
type answer string

const (
	served answer = "served"
	shed   answer = "shed"
	vetoed answer = "shed and vetoed"
)

// transportStream is what a unary handler's context leads to: where the trailer
// goes.
type transportStream struct {
	grpc.ServerTransportStream
	trailer metadata.MD
}

func (s *transportStream) SetTrailer(md metadata.MD) error {
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

// knock lets a request arrive with ctx.
func (d *door) knock(ctx context.Context) (answer, error) {
	stream := new(transportStream)
	_, err := d.enter(grpc.NewContextWithServerTransportStream(ctx, stream), nil, nil, func(context.Context, any) (any, error) {
		d.runs++
		return nil, nil
	})
	switch veto := stream.trailer.Get(pushbackTrailer); {
	case err == nil:
		return served, nil
	case len(veto) == 1 && veto[0] == "-1":
		return vetoed, err
	default:
		return shed, err
	}
}

// first and retry let n requests of a kind arrive and return what became of
// them, in a row.
func (d *door) first(t *testing.T, n int) []answer { t.Helper(); return d.several(t.Context(), t, n) }

func (d *door) retry(t *testing.T, n int) []answer {
	t.Helper()
	return d.several(arriving(t.Context(), attemptHeader, "1"), t, n)
}

func (d *door) several(ctx context.Context, t *testing.T, n int) (all []answer) {
	t.Helper()
	for range n {
		a, err := d.knock(ctx)
		if a != served {
			assert.Equal(t, codes.Unavailable, status.Code(err))
			assert.Equal(t, "retrybudget: overloaded, retries are refused first", status.Convert(err).Message())
		}
		all = append(all, a)
	}
	return all
}

// refused returns the answers to retries of which the first are shed and the
// others told not to come back as well.
func refused(first, others int) []answer {
	return slices.Concat(times(first, shed), times(others, vetoed))
}

func times(n int, a answer) []answer { return slices.Repeat([]answer{a}, n) }

func TestRetryShedding_onlyRetriesOnlyWhenFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		d.full.Store(false)
		assert.Equal(t, times(5, served), d.first(t, 5))
		assert.Equal(t, times(5, served), d.retry(t, 5))
		assert.Equal(t, 10, d.runs)
		d.full.Store(true)
		assert.Equal(t, times(5, served), d.first(t, 5), "first attempts go on to the limiter behind")
		assert.Equal(t, refused(0, 1), d.retry(t, 1))
		assert.Equal(t, 15, d.runs, "the handler of a shed retry does not run")
		d.full.Store(false)
		assert.Equal(t, times(5, served), d.retry(t, 5))
	})
}

// A tenth is still allowed, more is not.
func TestRetryShedding_aTenthOfTheArrivals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		firsts int
		want   []answer // of the retries that follow
	}{
		{0, refused(0, 1)},
		{8, refused(0, 1)},
		{9, refused(1, 1)},
		{90, refused(10, 5)},
		{99, refused(11, 2)},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDoor()
			d.first(t, tt.firsts)
			assert.Equal(t, tt.want, d.retry(t, len(tt.want)), "after %d first attempts", tt.firsts)
		})
	}
}

// Retries that are served count like those that are shed.
func TestRetryShedding_servedRetriesCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		d.full.Store(false)
		d.first(t, 90)
		d.retry(t, 10)
		d.full.Store(true)
		assert.Equal(t, refused(0, 1), d.retry(t, 1))
	})
}

// What arrived a second ago is forgotten, part by part.
func TestRetryShedding_aSlidingSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		// Ten parts of a second with ten first attempts each; in the third,
		// ten retries come too.
		for part := range 10 {
			d.first(t, 10)
			if part == 2 {
				d.retry(t, 10)
			}
			<-time.After(100 * ms)
		}
		// A second after the start the first part's have just gone: 90 and 10
		// are left, and now the eleventh retry.
		assert.Equal(t, refused(0, 1), d.retry(t, 1))
		d.first(t, 9) // 99 and 11
		<-time.After(99 * ms)
		assert.Equal(t, refused(0, 1), d.retry(t, 1), "99 and 12")
		<-time.After(101 * ms)
		d.first(t, 20)
		// Gone with the third part are its ten retries; the last two are left,
		// among 70 + 9 + 20 first attempts. The ninth more makes it 11 of 110.
		assert.Equal(t, refused(9, 1), d.retry(t, 10))
	})
}

// A quiet second forgets everything, however long it lasts.
func TestRetryShedding_forgetsAfterASecond(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		quiet time.Duration
		want  answer
	}{
		{899 * ms, vetoed}, {999 * ms, vetoed}, {time.Second, shed}, {time.Hour, shed}, {10 * 365 * 24 * time.Hour, shed},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDoor()
			d.retry(t, 100)
			<-time.After(tt.quiet)
			d.first(t, 9)
			assert.Equal(t, times(1, tt.want), d.retry(t, 1), "after %v", tt.quiet)
		})
	}
}

// A steady stream of just under a tenth is shed without a veto for ever.
func TestRetryShedding_steadyTraffic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		d.first(t, 100)
		for i := range 2000 {
			d.first(t, 11)
			require.Equal(t, refused(1, 0), d.retry(t, 1), "round %d", i)
			<-time.After(37 * ms)
		}
	})
}

// A request that is too late is refused as such and is nobody's load.
func TestRetryShedding_lateRequestsDoNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		for range 100 {
			_, err := d.knock(passedDeadline{arriving(t.Context(), attemptHeader, "1"), time.Now()})
			require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		}
		d.first(t, 9)
		assert.Equal(t, refused(1, 0), d.retry(t, 1))
	})
}

// The limiter is asked about retries only, with the request's context.
func TestRetryShedding_whatTheLimiterSees(t *testing.T) {
	t.Parallel()
	var asked []string
	enter := retrybudget.UnaryServerInterceptor(retrybudget.WithRetryShedding(func(ctx context.Context) bool {
		md, _ := metadata.FromIncomingContext(ctx)
		asked = append(asked, md.Get("tenant")...)
		return false
	}))
	for _, kv := range [][]string{{"tenant", "a"}, {"tenant", "b", attemptHeader, "2"}, {"tenant", "c", "x-envoy-attempt-count", "1"}, {"tenant", "d", "x-envoy-attempt-count", "2"}} {
		_, err := enter(arriving(t.Context(), kv...), nil, nil, func(context.Context, any) (any, error) { return nil, nil })
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"b", "d"}, asked)
}

func TestRetryShedding_concurrentArrivals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor()
		var counts [3]atomic.Int64
		d.first(t, 1800)
		parallel(20, func(int) {
			for range 20 {
				switch a, _ := d.knock(arriving(t.Context(), attemptHeader, "1")); a {
				case shed:
					counts[1].Add(1)
				case vetoed:
					counts[2].Add(1)
				default:
					counts[0].Add(1)
				}
			}
		})
		assert.Zero(t, counts[0].Load())
		assert.Equal(t, int64(200), counts[1].Load(), "200 of 2000 are a tenth")
		assert.Equal(t, int64(200), counts[2].Load())
	})
}
