package retrybudget_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// grpc-go's own retry is the model of a correct one. The same server and the
// same application, once with its retryPolicy and once with a Retrier: what the
// application and the server see must be the same. The one rule we leave is that
// headers which the application did not read commit a call.

const retryOfGRPC = `{"methodConfig":[{"name":[{}],"retryPolicy":{
	"maxAttempts":3,"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,
	"retryableStatusCodes":["UNAVAILABLE"]}}]}`

// eventLog is what happened, in words.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// inWords says what err means to an application.
func inWords(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, io.EOF): // grpc-go wraps it when it has no attempts left
		return "EOF"
	default:
		return status.Code(err).String()
	}
}

// received is inWords with the message, which counts only without an error.
func received(text string, err error) string {
	if err == nil {
		return text
	}
	return inWords(err)
}

var nativeHandlers = map[string]func(grpc.ServerStream) error{
	"fails":                 failing(unavailable("x")),
	"reads one and fails":   reading(1, failing(unavailable("x"))),
	"reads three and fails": reading(3, failing(unavailable("x"))),
	"reads all and fails": func(ss grpc.ServerStream) error {
		_, _ = recvAll(ss)
		return unavailable("x")
	},
	"one message and fails":   sending(unavailable("x"), "m1"),
	"reads, answers, fails":   reading(1, sending(unavailable("x"), "m1")),
	"answers":                 sending(nil, "m1"),
	"answers twice":           sending(nil, "m1", "m2"),
	"reads one and answers":   reading(1, sending(nil, "m1")),
	"ends":                    failing(nil),
	"reads one and ends":      reading(1, failing(nil)),
	"NOT_FOUND":               failing(status.Error(codes.NotFound, "x")),
	"reads one, NOT_FOUND":    reading(1, failing(status.Error(codes.NotFound, "x"))),
	"pushback":                withTrailer(failing(unavailable("x")), "grpc-retry-pushback-ms", "20"),
	"pushback after a read":   withTrailer(reading(1, failing(unavailable("x"))), "grpc-retry-pushback-ms", "0"),
	"veto":                    withTrailer(failing(unavailable("x")), "grpc-retry-pushback-ms", "-1"),
	"unreadable pushback":     withTrailer(failing(unavailable("x")), "grpc-retry-pushback-ms", "soon"),
	"two pushbacks":           withTrailer(failing(unavailable("x")), "grpc-retry-pushback-ms", "1", "grpc-retry-pushback-ms", "2"),
	"headers, then NOT_FOUND": withHeader(failing(status.Error(codes.NotFound, "x")), "h", "1"),
	"headers, then an answer": withHeader(sending(nil, "m1"), "h", "1"),
	"headers, reads, answers": withHeader(reading(2, sending(nil, "m1")), "h", "1"),
	"headers, then fails":     withHeader(later(time.Second, failing(unavailable("x"))), "h", "1"),
}

// nativePrograms are applications. They let everything come to rest between
// their steps, so that there is one right outcome.
var nativePrograms = map[string]func(cs grpc.ClientStream, log *eventLog){
	"many: send, close, receive": func(cs grpc.ClientStream, log *eventLog) {
		for i := range 3 {
			log.add("send %s", inWords(cs.SendMsg(wrapperspb.String(fmt.Sprint(i)))))
			synctest.Wait()
		}
		log.add("close %s", inWords(cs.CloseSend()))
		synctest.Wait()
		receiveAll(cs, log)
	},
	"many: send, receive, close": func(cs grpc.ClientStream, log *eventLog) {
		log.add("send %s", inWords(cs.SendMsg(wrapperspb.String("0"))))
		synctest.Wait()
		text, err := recvOne(cs)
		log.add("receive %s", received(text, err))
		synctest.Wait()
		log.add("send %s", inWords(cs.SendMsg(wrapperspb.String("1"))))
		synctest.Wait()
		log.add("close %s", inWords(cs.CloseSend()))
		receiveAll(cs, log)
	},
	"receive only": func(cs grpc.ClientStream, log *eventLog) {
		log.add("close %s", inWords(cs.CloseSend()))
		synctest.Wait()
		receiveAll(cs, log)
	},
	"many: headers first": func(cs grpc.ClientStream, log *eventLog) {
		log.add("send %s", inWords(cs.SendMsg(wrapperspb.String("0"))))
		synctest.Wait()
		log.add("send %s", inWords(cs.SendMsg(wrapperspb.String("1"))))
		log.add("close %s", inWords(cs.CloseSend()))
		synctest.Wait()
		md, err := cs.Header()
		log.add("headers %v %s", md.Get("h"), inWords(err))
		receiveAll(cs, log)
	},
	"request, headers": func(cs grpc.ClientStream, log *eventLog) {
		log.add("send %s", inWords(cs.SendMsg(wrapperspb.String("0"))))
		log.add("close %s", inWords(cs.CloseSend()))
		synctest.Wait()
		md, err := cs.Header()
		log.add("headers %v %s", md.Get("h"), inWords(err))
		receiveAll(cs, log)
	},
	"request": func(cs grpc.ClientStream, log *eventLog) {
		log.add("send %s", inWords(cs.SendMsg(wrapperspb.String("0"))))
		log.add("close %s", inWords(cs.CloseSend()))
		synctest.Wait()
		receiveAll(cs, log)
	},
	"overflow": func(cs grpc.ClientStream, log *eventLog) {
		log.add("send %s", inWords(cs.SendMsg(wrapperspb.String("0 "+strings.Repeat("x", 300<<10)))))
		synctest.Wait()
		log.add("close %s", inWords(cs.CloseSend()))
		synctest.Wait()
		receiveAll(cs, log)
	},
}

func receiveAll(cs grpc.ClientStream, log *eventLog) {
	for range 5 {
		text, err := recvOne(cs)
		log.add("receive %s", received(text, err))
		if err != nil {
			return
		}
		synctest.Wait()
	}
}

// runNative plays the program and returns what the application and the server
// saw.
func runNative(t *testing.T, handlers []string, desc *grpc.StreamDesc, program string, native bool) (app, server []string) {
	var seen, log eventLog
	attempt := 0
	var wrapped []func(grpc.ServerStream) error
	for _, name := range handlers {
		wrapped = append(wrapped, func(ss grpc.ServerStream) error {
			attempt++
			n := attempt
			watched := &watchedStream{ServerStream: ss, n: n, log: &seen}
			return nativeHandlers[name](watched)
		})
	}
	s := streamServer(t, wrapped...)
	options := []grpc.DialOption{grpc.WithDefaultServiceConfig(retryOfGRPC)}
	if !native {
		r := newRetrier(t, retrybudget.WithPolicy(retrybudget.Policy{
			RetryableCodes: []codes.Code{codes.Unavailable}, Backoff: retrybudget.ConstantBackoff(10 * ms),
		}))
		defer func() { assert.Zero(t, r.ReplayBytes()) }()
		options = append(options, r.DialOptions()...)
	}
	cs := open(after(t, time.Minute), t, s.Dial(t, options...), desc)
	synctest.Wait()
	nativePrograms[program](cs, &log)
	synctest.Wait()
	log.add("attempts %d", s.AttemptsOf(streamMethod))
	return log.lines, seen.lines
}

// watchedStream notes what a server receives.
type watchedStream struct {
	grpc.ServerStream
	n   int
	log *eventLog
}

func (w *watchedStream) RecvMsg(m any) error {
	err := w.ServerStream.RecvMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		return err // the client gave up; when is not compared
	}
	text := m.(*wrapperspb.StringValue).GetValue() //nolint:errcheck,forcetypeassert // all that is received here
	first, _, _ := strings.Cut(text, " ")
	w.log.add("attempt %d receives %q %s", w.n, first, inWords(err))
	return err
}

func TestStreamNative_sameOutcomes(t *testing.T) {
	t.Parallel()
	for first := range nativeHandlers {
		for _, second := range []string{"fails", "reads one and answers", "reads all and fails", "ends"} {
			if first == "headers, then fails" {
				continue // compared below
			}
			t.Run(first+" - "+second, func(t *testing.T) {
				t.Parallel()
				for program := range nativePrograms {
					for kind, desc := range streamKinds {
						if kind == "server" && strings.HasPrefix(program, "many: ") {
							continue // it can send once
						}
						if kind == "client" && (first == "one message and fails" || first == "reads, answers, fails") {
							continue // an answer followed by a failure is one failure to an interceptor
						}
						if kind == "client" && first == "answers twice" && program == "many: send, receive, close" {
							continue // received again after the error, grpc-go's stream ends OK; ours repeats the error
						}
						if program == "overflow" && (kind == "server" || !strings.HasPrefix(first, "reads")) {
							continue // whether it went out whole is chance, and of a single message hidden from interceptors
						}
						name := program + ", " + kind
						handlers := []string{first, second}
						var want, got, wantSeen, gotSeen []string
						synctest.Test(t, func(t *testing.T) { want, wantSeen = runNative(t, handlers, desc, program, true) })
						synctest.Test(t, func(t *testing.T) { got, gotSeen = runNative(t, handlers, desc, program, false) })
						assert.Equal(t, sendsApart(t, want, wantSeen), sendsApart(t, got, gotSeen), "the application, %s", name)
						assert.Equal(t, wantSeen, gotSeen, "the server, %s", name)
					}
				}
			})
		}
	}
}

// sendsApart returns app without what its sends gave. When the server ends a
// stream early, whether a send still goes out is chance, with grpc-go as well:
// it does until the end is known. What must hold is that a stream which ended
// takes no more, and that one which the server read to its end took all.
func sendsApart(t *testing.T, app, server []string) []string {
	t.Helper()
	var sends, rest []string
	for _, line := range app {
		if strings.HasPrefix(line, "send ") {
			sends = append(sends, line)
			continue
		}
		rest = append(rest, line)
	}
	assert.True(t, slices.IsSortedFunc(sends, func(a, b string) int { return strings.Compare(b, a) }), "EOF and then ok: %v", sends)
	if len(server) > 0 && strings.HasSuffix(server[len(server)-1], "EOF") {
		assert.NotContains(t, sends, "send EOF", "the server read all")
	}
	return rest
}

// The difference: with headers that nobody reads before the failure grpc-go's
// own retry stops, which any request-id middleware on the server makes happen.
func TestStreamNative_headersNobodyRead(t *testing.T) {
	t.Parallel()
	for native, want := range map[bool][]string{
		true:  {"send ok", "receive Unavailable", "attempts 1"},
		false: {"send ok", "receive m1", "attempts 2"},
	} {
		t.Run(fmt.Sprint("native ", native), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app, _ := runNative(t, []string{"headers, then fails", "reads one and answers"}, bidiStream, "many: send, receive, close", native)
				assert.Equal(t, want, []string{app[0], app[1], app[len(app)-1]})
			})
		})
	}
}
