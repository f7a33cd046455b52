package otel

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/retrybudget/retrybudget"
)

// scope is the name of this instrumentation.
const scope = "github.com/retrybudget/retrybudget/providers/otel"

// The project's own attributes, named as in its logs. The others are those of
// the semantic conventions for RPC.
const (
	attemptKey  = attribute.Key("retrybudget.attempt")
	guidanceKey = attribute.Key("retrybudget.from_guidance")
	observedKey = attribute.Key("retrybudget.observed")
	reasonKey   = attribute.Key("retrybudget.reason")
	waitKey     = attribute.Key("retrybudget.wait")

	// previousKey is gRFC A72's, on the spans of attempts.
	previousKey = attribute.Key("previous-rpc-attempts")
)

// otherMethod is what the semantic conventions call a method without a name of
// its own.
const otherMethod = "_OTHER"

// codeAttribute is the status code as the semantic conventions write it. Numbers
// that gRPC does not know are UNKNOWN, as it says, or a server could make any
// number of series.
func codeAttribute(c codes.Code) attribute.KeyValue {
	return semconv.RPCResponseStatusCode(codeName(c))
}

func codeName(c codes.Code) string {
	if c > codes.Unauthenticated {
		c = codes.Unknown
	}
	return code.Code_name[int32(c)] //nolint:gosec // at most 16
}

func reasonAttribute(r retrybudget.Reason) attribute.KeyValue { return reasonKey.String(r.String()) }

// methodName is rpc.method: the full name without the first slash. Exporters
// refuse text that is not UTF-8.
func methodName(method string) string {
	return strings.ToValidUTF8(strings.TrimPrefix(method, "/"), "\uFFFD")
}

// methodAttributes describe a method of a target, as spans and metrics of other
// instrumentations do, so that they can be put side by side.
func methodAttributes(target, method string) []attribute.KeyValue {
	list := []attribute.KeyValue{semconv.RPCSystemNameGRPC, semconv.RPCMethod(methodName(method))}
	host, port := serverAddress(target)
	if host != "" {
		list = append(list, semconv.ServerAddress(strings.ToValidUTF8(host, "\uFFFD")))
	}
	if port > 0 {
		list = append(list, semconv.ServerPort(port))
	}
	return list
}

// serverAddress makes server.address and server.port (0 for none) of a target of
// grpc.NewClient, as the semantic conventions for gRPC say: name or address and
// port where the target's scheme is known to have them, else the whole target.
func serverAddress(target string) (address string, port int) {
	if host, port, ok := hostPort(target); ok {
		return host, port
	}
	u, err := url.Parse(target)
	if err != nil {
		return target, 0
	}
	endpoint := u.Opaque
	switch u.Scheme {
	case "unix", "unix-abstract":
		if endpoint == "" {
			endpoint = u.Path
		}
		return endpoint, 0
	case "dns", "passthrough":
		if endpoint == "" {
			endpoint = strings.TrimPrefix(u.Path, "/")
		}
		if host, port, ok := hostPort(endpoint); ok {
			return host, port
		}
		return endpoint, 0
	default:
		return target, 0
	}
}

func hostPort(endpoint string) (host string, port int, ok bool) {
	host, text, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", 0, false
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return host, int(number), err == nil && host != ""
}
