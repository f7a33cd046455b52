package retrybudget

import (
	"context"
	"strings"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
)

// NewLoggingObserver returns an [Observer] that writes to a logger of
// go-grpc-middleware's kind, so that the adapters its users have already (slog,
// zap, logr, …) serve here too. Retries are logged at debug level, refusals by
// budget, pushback and attempts at warning level, those because the caller gave
// up at info level, warnings at warning level; ended calls are not logged.
//
// A line carries method, target, attempt, code, reason and wait: never error
// texts, messages, metadata or payloads.
//
// An outage does not flood the log: of the refusals of one method for one
// reason, ten lines are written at once and then one each 10 s, which says in
// retrybudget.suppressed how many were left out since the line before. Ten at
// once are allowed again after a while with fewer.
//
// Without a logger it ignores every event.
func NewLoggingObserver(logger logging.Logger) Observer {
	if logger == nil {
		return NopObserver{}
	}
	return loggingObserver{logger: logger, refusals: newRefusalLimit()}
}

type loggingObserver struct {
	NopObserver
	logger   logging.Logger
	refusals *refusalLimit
}

func (l loggingObserver) RetrySent(e RetryEvent) {
	l.logger.Log(e.Call.Context, logging.LevelDebug, "retry sent", append(callFields(e.Call, e.Cause),
		"retrybudget.wait", e.Wait, "retrybudget.from_guidance", e.FromGuidance)...)
}

func (l loggingObserver) RetryRefused(e RefusalEvent) {
	suppressed, ok := l.refusals.pass(refusalKind{method: e.Call.Method, reason: e.Reason, observed: e.Observed})
	if !ok {
		return
	}
	level, text := logging.LevelWarn, "retry refused"
	switch {
	case e.Observed:
		text = "retry would be refused"
	case e.Reason == ReasonCanceled || e.Reason == ReasonDeadline || e.Reason == ReasonClosed:
		level = logging.LevelInfo
	}
	fields := append(callFields(e.Call, e.Cause), "retrybudget.reason", e.Reason.String())
	if suppressed > 0 {
		fields = append(fields, "retrybudget.suppressed", suppressed)
	}
	l.logger.Log(e.Call.Context, level, text, fields...)
}

func (l loggingObserver) Warned(e WarningEvent) {
	l.logger.Log(context.Background(), logging.LevelWarn, e.Text,
		append(methodFields(e.Method), "retrybudget.target", e.Target)...)
}

// methodFields names a method as go-grpc-middleware's own log lines do.
func methodFields(method string) []any {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return []any{logging.ServiceFieldKey, service, logging.MethodFieldKey, name}
}

func callFields(c CallInfo, cause AttemptRecord) []any {
	return append(methodFields(c.Method),
		"retrybudget.target", c.Target,
		"retrybudget.attempt", c.Attempt,
		"grpc.code", cause.Code.String(),
	)
}
