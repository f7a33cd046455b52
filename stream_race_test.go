package retrybudget_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// Streams in which one goroutine sends and another receives while attempts are
// replaced, in real time and many at once. What holds whatever the order of
// events: every attempt gets a prefix of what was sent, the application gets the
// answers of one attempt in order, and nothing stays behind.

// rough is a server whose attempts fail at random places, until the last one.
type rough struct {
	rand  *rand.Rand
	fails int // how many attempts may fail

	mu       sync.Mutex
	attempts int
	bad      []string // what an attempt should not have seen
}

func (r *rough) handle(ss grpc.ServerStream) error {
	r.mu.Lock()
	r.attempts++
	n, last := r.attempts, r.attempts > r.fails
	failAt, answerFrom := 1000, 0
	if !last {
		failAt, answerFrom = r.rand.IntN(12), 1000
		if r.rand.IntN(8) == 0 {
			answerFrom = r.rand.IntN(12)
		}
	}
	header := r.rand.IntN(2) == 0
	r.mu.Unlock()
	if header {
		_ = ss.SendHeader(nil)
	}
	for i := 0; ; i++ {
		if i == failAt {
			return unavailable("attempt " + strconv.Itoa(n))
		}
		text, err := recv(ss)
		if err == io.EOF {
			if !last {
				return unavailable("attempt " + strconv.Itoa(n))
			}
			return nil
		}
		if err != nil {
			return err
		}
		if number, _, _ := strings.Cut(text, " "); number != strconv.Itoa(i) {
			r.mu.Lock()
			r.bad = append(r.bad, fmt.Sprintf("attempt %d got %s for %d", n, number, i))
			r.mu.Unlock()
		}
		if i >= answerFrom {
			if err := send(ss, fmt.Sprint(n, " ", i)); err != nil {
				return err
			}
		}
	}
}

func TestStreamRace_senderAndReceiver(t *testing.T) {
	t.Parallel()
	seeds := 60
	if testing.Short() {
		seeds = 20
	}
	var current sync.Map // *rough by call id
	s := streamServer(t, func(ss grpc.ServerStream) error {
		id := callIDOf(ss)
		r, _ := current.Load(id)
		return r.(*rough).handle(ss) //nolint:errcheck // nothing else is stored there
	})
	r := newRetrier(t, atOnce(8))
	cc := s.Dial(t, r.DialOptions()...)
	for workers := range 4 {
		t.Run("", func(t *testing.T) {
			for seed := range seeds {
				id := fmt.Sprint(workers, "/", seed)
				random := rand.New(rand.NewPCG(uint64(workers), uint64(seed)))
				server := &rough{rand: random, fails: random.IntN(6)}
				size := []int{1, 1, 1000, 20_000}[random.IntN(4)]
				pause, headers := random.IntN(3) == 0, random.IntN(4) == 0
				current.Store(id, server)
				ctx, cancel := context.WithTimeout(withCallID(t, id), time.Minute)
				cs := open(ctx, t, cc, bidiStream)

				const messages = 12
				var sendErr error
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					shared := &wrapperspb.StringValue{}
					for i := range messages {
						shared.Value = fmt.Sprint(i, " ", strings.Repeat("x", size))
						if sendErr = cs.SendMsg(shared); sendErr != nil {
							break
						}
						if pause && i%4 == 0 {
							<-time.After(time.Millisecond)
						}
					}
					_ = cs.CloseSend()
				}()
				if headers {
					go func() { _, _ = cs.Header() }()
				}
				got, err := recvAll(cs)
				<-sent
				cancel()

				require.NoError(t, ctxErr(err), "seed %s", id)
				require.Empty(t, server.bad, "seed %s", id)
				checkAnswers(t, id, got, err, messages)
				if err == io.EOF && sendErr == nil {
					require.Len(t, got, messages, "seed %s", id)
				}
				if !headers {
					require.True(t, err == io.EOF || len(got) > 0 || sendErr == io.EOF, "seed %s: %v", id, err)
				}
			}
		})
	}
	assert.Zero(t, r.ReplayBytes())
}

// checkAnswers checks that answers are those of one attempt, in order.
func checkAnswers(t *testing.T, id string, got []string, err error, most int) {
	t.Helper()
	attempt, from := "", 0
	for i, text := range got {
		a, n, _ := strings.Cut(text, " ")
		number, bad := strconv.Atoi(n)
		require.NoError(t, bad)
		if i == 0 {
			attempt, from = a, number
		}
		require.Equal(t, attempt, a, "seed %s: answers of two attempts in %v", id, got)
		require.Equal(t, from+i, number, "seed %s: %v", id, got)
	}
	require.LessOrEqual(t, len(got), most)
	if err != io.EOF {
		require.Equal(t, codes.Unavailable, status.Code(err), "seed %s: %v", id, err)
	}
}

// ctxErr returns err if it says that time ran out: then something hung.
func ctxErr(err error) error {
	if status.Code(err) == codes.DeadlineExceeded {
		return err
	}
	return nil
}

// Uploads whose server answers before it has read everything, or ends OK, or
// fails, while the application still sends.
func TestStreamRace_serverEndsWhileTheApplicationSends(t *testing.T) {
	t.Parallel()
	rounds := 150
	if testing.Short() {
		rounds = 50
	}
	for kind, desc := range map[string]*grpc.StreamDesc{"client": clientStream, "bidi": bidiStream} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := streamServer(t, func(ss grpc.ServerStream) error {
				if len(callIDOf(ss))%2 == 0 {
					return send(ss, "early")
				}
				_, _ = recv(ss)
				return send(ss, "early")
			})
			r := newRetrier(t, atOnce(3))
			cc := s.Dial(t, r.DialOptions()...)
			for i := range rounds {
				ctx, cancel := context.WithTimeout(withCallID(t, strings.Repeat("i", 1+i%2)), time.Minute)
				cs := open(ctx, t, cc, desc)
				done := make(chan struct{})
				go func() {
					defer close(done)
					m := wrapperspb.String("a")
					for range 100 {
						if cs.SendMsg(m) != nil {
							break
						}
					}
					_ = cs.CloseSend()
				}()
				got, err := recvOne(cs)
				if i%3 == 0 {
					<-done
				}
				require.NoError(t, err)
				require.Equal(t, "early", got)
				_, err = recvOne(cs)
				require.Equal(t, io.EOF, err)
				<-done
				require.Equal(t, io.EOF, cs.SendMsg(wrapperspb.String("a")))
				cancel()
				require.Zero(t, r.ReplayBytes(), "round %d", i)
			}
		})
	}
}

// Streams that the application gives up at any moment: nothing is left of them.
func TestStreamRace_cancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	rounds := 150
	if testing.Short() {
		rounds = 50
	}
	s := streamServer(t,
		reading(1, failing(unavailable("x"))),
		withHeader(reading(3, failing(unavailable("x"))), "k", "v"),
		echoing)
	r := newRetrier(t, atOnce(5))
	cc := s.Dial(t, r.DialOptions()...)
	var finished sync.WaitGroup
	for i := range rounds {
		ctx, cancel := context.WithCancel(withCallID(t, fmt.Sprint(i)))
		finished.Add(1)
		cs, err := cc.NewStream(ctx, bidiStream, streamMethod, grpc.OnFinish(func(error) { finished.Done() }))
		if err != nil {
			cancel()
			continue
		}
		random := rand.New(rand.NewPCG(7, uint64(i)))
		go func() {
			for range 20 {
				if cs.SendMsg(wrapperspb.String(strings.Repeat("x", 5000))) != nil {
					return
				}
			}
			_ = cs.CloseSend()
		}()
		if random.IntN(3) > 0 {
			go func() { _, _ = recvAll(cs) }()
		}
		if random.IntN(3) == 0 {
			go func() { _, _ = cs.Header() }()
		}
		if random.IntN(4) > 0 {
			<-time.After(time.Duration(random.IntN(3000)) * time.Microsecond)
		}
		cancel()
	}
	finished.Wait() // each exactly once, or this panics or hangs
	assert.Eventually(t, func() bool { return s.Live.Load() == 0 && r.ReplayBytes() == 0 }, 10*time.Second, time.Millisecond)
}

// A connection that is closed ends all its streams, whatever they are doing.
func TestStreamRace_connectionClosedAtAnyMoment(t *testing.T) {
	t.Parallel()
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	s := streamServer(t,
		reading(1, failing(unavailable("x"))),
		withHeader(reading(3, failing(unavailable("x"))), "k", "v"),
		echoing)
	r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{MaxAttempts: 5, Backoff: retrybudget.ConstantBackoff(100 * time.Microsecond)}))
	listener := s.Start(t)
	var all, finished sync.WaitGroup
	for round := range rounds {
		cc := listener.Dial(t, r.DialOptions()...)
		random := rand.New(rand.NewPCG(8, uint64(round)))
		for i := range 10 {
			ctx := withCallID(t, fmt.Sprint(round, "/", i))
			finished.Add(1)
			all.Go(func() {
				cs, err := cc.NewStream(ctx, bidiStream, streamMethod, grpc.OnFinish(func(error) { finished.Done() }))
				if err != nil {
					return
				}
				all.Go(func() { _, _ = recvAll(cs) })
				for range 20 {
					if cs.SendMsg(wrapperspb.String("a")) != nil {
						return
					}
				}
			})
		}
		<-time.After(time.Duration(random.IntN(2000)) * time.Microsecond)
		assert.NoError(t, cc.Close())
	}
	all.Wait()
	finished.Wait()
	assert.Zero(t, r.ReplayBytes())
	assert.Eventually(t, func() bool { return s.Live.Load() == 0 }, 10*time.Second, time.Millisecond)
}

// Header and RecvMsg may both see the end of an attempt. Whoever is first, the
// server's guidance is heeded.
func TestStreamRace_guidanceIsSeenBesideHeader(t *testing.T) {
	t.Parallel()
	for _, wrapped := range []bool{false, true} {
		t.Run(fmt.Sprint("wrapped ", wrapped), func(t *testing.T) {
			t.Parallel()
			s := streamServer(t, withTrailer(failing(unavailable("x")), "grpc-retry-pushback-ms", "-1"))
			r := newRetrier(t, atOnce(3))
			options := r.DialOptions()
			if wrapped {
				options = tapped(r, func(int, *tap) {})
			}
			cc := s.Dial(t, options...)
			for i := range 100 {
				var all sync.WaitGroup
				cs := open(t.Context(), t, cc, bidiStream)
				all.Go(func() { _, _ = cs.Header() })
				if i%2 == 0 {
					all.Go(func() { _ = cs.SendMsg(wrapperspb.String("a")) })
				}
				_, err := recvOne(cs)
				require.ErrorIs(t, err, retrybudget.ErrPushback)
				all.Wait()
			}
			assert.Equal(t, 100, s.AttemptsOf(streamMethod))
		})
	}
}
