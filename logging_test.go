package retrybudget_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// logLines is a logger of go-grpc-middleware's kind that keeps its lines.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

var levelNames = map[logging.Level]string{
	logging.LevelDebug: "DEBUG", logging.LevelInfo: "INFO", logging.LevelWarn: "WARN", logging.LevelError: "ERROR",
}

func (l *logLines) Log(_ context.Context, level logging.Level, text string, fields ...any) {
	line := levelNames[level] + " " + text
	for i := 0; i+1 < len(fields); i += 2 {
		line += fmt.Sprintf(" %v=%v", fields[i], fields[i+1])
	}
	if len(fields)%2 != 0 {
		line += " ODD NUMBER OF FIELDS"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *logLines) read() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func TestLoggingObserver_lines(t *testing.T) {
	t.Parallel()
	const call = " grpc.service=test.Service grpc.method=Method retrybudget.target=passthrough:///bufnet"
	unavailable := rpctest.Fail(codes.Unavailable, "secret text")
	empty := retrybudget.WithBudget(retrybudget.PerMethod(retrybudget.TokenBucketConfig{}))
	hour := retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(time.Hour)})
	for _, tt := range []struct {
		name    string
		steps   []rpctest.Step
		options []retrybudget.Option
		want    []string
	}{
		{"OK", []rpctest.Step{rpctest.OK()}, nil, nil},
		{"not retryable", []rpctest.Step{rpctest.Fail(codes.NotFound, "secret text")}, nil, nil},
		{"retries", []rpctest.Step{unavailable, rpctest.Pushback(unavailable, "30"), unavailable}, nil, []string{
			"DEBUG retry sent" + call + " retrybudget.attempt=2 grpc.code=Unavailable retrybudget.wait=100ms retrybudget.from_guidance=false",
			"DEBUG retry sent" + call + " retrybudget.attempt=3 grpc.code=Unavailable retrybudget.wait=30ms retrybudget.from_guidance=true",
			"WARN retry refused" + call + " retrybudget.attempt=3 grpc.code=Unavailable retrybudget.reason=max_attempts",
		}},
		{"budget", []rpctest.Step{unavailable}, []retrybudget.Option{empty}, []string{
			"WARN retry refused" + call + " retrybudget.attempt=1 grpc.code=Unavailable retrybudget.reason=budget",
		}},
		{"budget only observed", []rpctest.Step{unavailable, rpctest.OK()}, []retrybudget.Option{empty, retrybudget.WithMode(retrybudget.Observe)}, []string{
			"WARN retry would be refused" + call + " retrybudget.attempt=1 grpc.code=Unavailable retrybudget.reason=budget",
			"DEBUG retry sent" + call + " retrybudget.attempt=2 grpc.code=Unavailable retrybudget.wait=100ms retrybudget.from_guidance=false",
		}},
		{"pushback", []rpctest.Step{rpctest.Pushback(unavailable, "secret text")}, nil, []string{
			"WARN retry refused" + call + " retrybudget.attempt=1 grpc.code=Unavailable retrybudget.reason=pushback",
		}},
		{"no time", []rpctest.Step{unavailable}, []retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{Timeout: time.Second, Backoff: retrybudget.ConstantBackoff(time.Hour)})}, []string{
			"INFO retry refused" + call + " retrybudget.attempt=1 grpc.code=Unavailable retrybudget.reason=deadline",
		}},
		{"cancelled", []rpctest.Step{unavailable}, []retrybudget.Option{hour}, []string{
			"INFO retry refused" + call + " retrybudget.attempt=1 grpc.code=Unavailable retrybudget.reason=canceled",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(rpctest.Method, tt.steps...)
				log := &logLines{}
				options := append([]retrybudget.Option{retrybudget.WithPolicy(retrybudget.Policy{Backoff: retrybudget.ConstantBackoff(100 * time.Millisecond)})}, tt.options...)
				cc := s.Dial(t, newRetrier(t, append(options, retrybudget.WithObserver(retrybudget.NewLoggingObserver(log)))...).DialOptions()...)
				ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "authorization", "secret text"))
				defer time.AfterFunc(time.Minute, cancel).Stop()
				defer cancel()
				var reply wrapperspb.StringValue
				_ = cc.Invoke(ctx, rpctest.Method, wrapperspb.String("secret text"), &reply)

				assert.Equal(t, tt.want, log.read())
				assert.NotContains(t, strings.Join(log.read(), "\n"), "secret")
			})
		})
	}
}

func TestLoggingObserver_warning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(rpctest.Method, rpctest.Fail(codes.Unavailable, "secret text"))
		log := &logLines{}
		r := newRetrier(t, atOnce(2), retrybudget.WithObserver(retrybudget.NewLoggingObserver(log)))
		cc := s.Dial(t, grpc.WithUnaryInterceptor(r.UnaryClientInterceptor()), grpc.WithDefaultServiceConfig(nativeRetries))
		require.Error(t, rpctest.Call(t.Context(), cc))
		lines := log.read()
		require.Len(t, lines, 3)
		assert.Regexp(t, "^WARN .*retryPolicy.* grpc.service=test.Service grpc.method=Method retrybudget.target=passthrough:///bufnet$", lines[0])
	})
}

// Names without the usual form must not break a log.
func TestLoggingObserver_oddNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":        "grpc.service= grpc.method= ",
		"/":       "grpc.service= grpc.method= ",
		"odd":     "grpc.service=odd grpc.method= ",
		"/a.B/":   "grpc.service=a.B grpc.method= ",
		"/a.B/c":  "grpc.service=a.B grpc.method=c ",
		"/a/b/c":  "grpc.service=a grpc.method=b/c ",
		"a.B/c/d": "grpc.service=a.B grpc.method=c/d ",
	} {
		log := &logLines{}
		r := newRetrier(t, atOnce(2), retrybudget.WithObserver(retrybudget.NewLoggingObserver(log)))
		callName(t.Context(), r, name, codes.Unavailable)
		require.Len(t, log.read(), 2, "%q", name)
		assert.Contains(t, log.read()[0], want, "%q", name)
	}
}
