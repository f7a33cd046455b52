package retrybudget_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// Under fake time everything takes whole milliseconds here, so that much happens
// at one instant, in an order that chance decides: answers, failures, attempt
// timeouts, backoff, what the application does, its cancel, the connection's end.

// dice are shared by a server and its client.
type dice struct {
	mu     sync.Mutex
	rand   *rand.Rand
	single bool // the server answers with one message
}

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n)
}

// pause lets up to three milliseconds pass.
func (d *dice) pause() { <-time.After(time.Duration(d.roll(4)) * ms) }

// capricious is a server that takes its time, fails now and then, and otherwise
// answers every message in the end.
func (d *dice) capricious(ss grpc.ServerStream) error {
	d.pause()
	if d.roll(3) == 0 {
		_ = ss.SendHeader(nil)
		d.pause()
	}
	var got []string
	for {
		if d.roll(12) == 0 {
			return unavailable("capricious")
		}
		text, err := recv(ss)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		got = append(got, text)
		if d.roll(4) == 0 {
			d.pause()
		}
	}
	for i, text := range got {
		if text != fmt.Sprint(i) {
			return status.Errorf(codes.DataLoss, "%v", got)
		}
	}
	answers := append(slices.Clone(got), "end")
	if d.single {
		answers = []string{"end"}
	}
	for _, text := range answers {
		if err := send(ss, text); err != nil {
			return err
		}
		if d.roll(4) == 0 {
			d.pause()
		}
	}
	return nil
}

func TestStreamInstant_everyMessageOnceOrAnHonestError(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for _, ends := range []string{"", "cancel", "deadline", "close"} {
		for kind, desc := range streamKinds {
			t.Run(kind+" "+ends, func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					synctest.Test(t, func(t *testing.T) { playInstant(t, seed, desc, ends) })
					if t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				}
			})
		}
	}
}

func playInstant(t *testing.T, seed uint64, desc *grpc.StreamDesc, ends string) {
	t.Helper()
	d := &dice{rand: rand.New(rand.NewPCG(seed, 1)), single: !desc.ServerStreams}
	messages, want := 4, []string{"0", "1", "2", "3", "end"}
	switch {
	case d.single:
		want = []string{"end"}
	case !desc.ClientStreams:
		messages, want = 1, []string{"0", "end"}
	}
	s := streamServer(t, d.capricious)
	ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
	r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal), retrybudget.WithPolicy(retrybudget.Policy{
		MaxAttempts: 100, Idempotency: retrybudget.Idempotent, Backoff: retrybudget.ConstantBackoff(time.Duration(d.roll(3)) * ms),
		PerAttemptTimeout: time.Duration(3+d.roll(5)) * ms,
	}))
	cc := s.Dial(t, r.DialOptions()...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	after := time.Duration(1+d.roll(12)) * ms
	switch ends {
	case "cancel":
		time.AfterFunc(after, cancel)
	case "deadline":
		ctx, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	case "close":
		time.AfterFunc(after, func() { _ = cc.Close() })
	}
	var mu sync.Mutex
	var finished []error
	cs, err := cc.NewStream(ctx, desc, streamMethod, grpc.OnFinish(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		finished = append(finished, err)
	}))
	var got []string
	var all sync.WaitGroup
	complete := false
	if err == nil {
		all.Go(func() {
			for i := range messages {
				if cs.SendMsg(wrapperspb.String(fmt.Sprint(i))) != nil {
					return
				}
				if d.roll(4) == 0 {
					d.pause()
				}
			}
			_ = cs.CloseSend()
			complete = true
		})
		if d.roll(4) == 0 {
			all.Go(func() {
				d.pause()
				_, _ = cs.Header()
			})
		}
		if d.roll(3) == 0 {
			d.pause()
		}
		got, err = recvAll(cs)
		all.Wait()
		_, again := recvOne(cs)
		require.Equal(t, err, again)
	}
	<-time.After(time.Second) // for handlers in a pause
	checkInstant(t, ends, got, want, err, complete)
	require.Zero(t, r.ReplayBytes())
	require.Zero(t, s.Live.Load())
	requireSettled(t, ledger)
	if err == io.EOF {
		err = nil
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []error{err}, finished)
	checkTold(t, journal, ledger, err)
}

// checkTold checks what observer and budget were told of a call that ended with
// err, nil for OK.
func checkTold(t *testing.T, journal *callJournal, ledger *budgetLedger, err error) {
	t.Helper()
	require.Len(t, journal.ended, 1)
	end := journal.ended[0]
	require.Equal(t, err, end.Err)
	require.Equal(t, err == nil, end.Reason == retrybudget.NoReason)
	require.Equal(t, 1+len(journal.retries), end.Call.Attempt)
	require.Equal(t, end.Call.Attempt, end.Last.Attempt)
	successes := 0
	for _, line := range ledger.read() {
		if line == "success" {
			successes++
		}
	}
	switch {
	case end.Call.Attempt > 1:
		require.Zero(t, successes)
	case err == nil:
		require.Equal(t, 1, successes)
	default:
		require.LessOrEqual(t, successes, 1)
	}
}

// checkInstant checks that the application got a prefix of the right answers, all
// of them with OK, and an error that what happened explains.
func checkInstant(t *testing.T, ends string, got, want []string, err error, complete bool) {
	t.Helper()
	require.LessOrEqual(t, len(got), len(want))
	for i, text := range got {
		require.Equal(t, want[i], text, "%v", got)
	}
	if err == io.EOF {
		require.True(t, complete)
		require.Equal(t, want, got)
		return
	}
	// The failure of a committed attempt, or of one that time ran out after.
	allowed := []codes.Code{codes.Unavailable}
	switch ends {
	case "cancel", "close":
		allowed = append(allowed, codes.Canceled, codes.DeadlineExceeded) // that of an attempt before
	case "deadline":
		allowed = append(allowed, codes.DeadlineExceeded)
	}
	require.Contains(t, allowed, status.Code(err), "%v", err)
	require.NotErrorIs(t, err, retrybudget.ErrAttemptsExhausted)
}

func TestStreamInstant_cancelAndFailure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ server, caller time.Duration }{
		"cancel first": {20 * ms, 10 * ms},
		"together":     {10 * ms, 10 * ms},
		"in the wait":  {10 * ms, 12 * ms},
		"in replay":    {10 * ms, 15 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 20 {
				synctest.Test(t, func(t *testing.T) {
					s := streamServer(t, later(test.server, failing(unavailable("x"))), hanging)
					ledger, journal := &budgetLedger{grants: -1}, &callJournal{}
					r := newRetrier(t, ledger.option(), retrybudget.WithObserver(journal),
						retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(5 * ms)}))
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(test.caller, cancel)
					ended := 0
					cs := open(ctx, t, s.Dial(t, r.DialOptions()...), bidiStream, grpc.OnFinish(func(error) { ended++ }))
					sendAll(t, cs, strings.Repeat("x", 1000))
					start := time.Now()

					_, err := recvOne(cs)

					if test.server != test.caller || status.Code(err) != codes.Unavailable {
						require.Equal(t, codes.Canceled, status.Code(err))
					}
					require.Equal(t, test.caller, time.Since(start))
					synctest.Wait()
					require.Equal(t, 1, ended)
					require.Zero(t, s.Live.Load())
					require.Zero(t, r.ReplayBytes())
					require.Equal(t, []retrybudget.Reason{retrybudget.ReasonCanceled}, journal.reasons())
					requireSettled(t, ledger)
				})
			}
		})
	}
}

// Whatever comes first at the instant of the timeout, the attempt is either the
// one that counts or given up, never a bit of both.
func TestStreamInstant_attemptTimeout(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(grpc.ServerStream) error{
		"message":     later(time.Second, sending(nil, "m1", "m2", "m3")),
		"header":      later(time.Second, withHeader(sending(nil, "m1", "m2", "m3"), "x-id", "1")),
		"unavailable": later(time.Second, failing(unavailable("x"))),
		"end":         later(time.Second, failing(nil)),
	} {
		for _, askHeader := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", askHeader), func(t *testing.T) {
				t.Parallel()
				for range 20 {
					synctest.Test(t, func(t *testing.T) {
						s := streamServer(t, handler, sending(nil, "m1", "m2", "m3"))
						r := newRetrier(t, perTry(3))
						cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), bidiStream)
						sendAll(t, cs, "a")

						var md metadata.MD
						if askHeader {
							md, _ = cs.Header()
						}
						got, err := recvAll(cs)

						require.Equal(t, io.EOF, err)
						if name == "end" && s.AttemptsOf(streamMethod) == 1 {
							require.Empty(t, got)
						} else {
							require.Equal(t, []string{"m1", "m2", "m3"}, got)
						}
						if len(md.Get("x-id")) > 0 {
							require.Equal(t, 1, s.AttemptsOf(streamMethod), "headers that were given commit")
						}
						synctest.Wait()
						require.Zero(t, r.ReplayBytes())
						require.Zero(t, s.Live.Load())
					})
				}
			})
		}
	}
}

func TestStreamInstant_attemptTimeoutAndOverflow(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := streamServer(t, func(ss grpc.ServerStream) error {
				all, err := recvAll(ss)
				if err != io.EOF {
					return err
				}
				return send(ss, fmt.Sprint(len(all)))
			})
			r := newRetrier(t, perTry(3), retrybudget.WithReplayLimits(500, 1<<20))
			cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), clientStream)
			sendOne(t, cs, "a")
			<-time.After(time.Second)
			require.NoError(t, cs.SendMsg(wrapperspb.String(string(make([]byte, 1000)))))
			require.NoError(t, cs.CloseSend())

			got, err := recvOne(cs)

			require.NoError(t, err)
			require.Equal(t, "2", got)
			require.Zero(t, r.ReplayBytes())
		})
	}
}
