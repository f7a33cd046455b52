// Package retrybudget provides gRPC client interceptors that make retries safe.
//
// A call fails and the client retries; the dependency is overloaded, every
// client retries, and the retries become the outage. This package draws every
// retry from a budget that successful first attempts fund, one for each method:
// while a dependency answers, a failure here and there is retried; when it stops
// answering, so do the retries.
//
//	r, err := retrybudget.New()
//	conn, err := grpc.NewClient(target, append(r.DialOptions(), creds)...)
//
// # Words
//
// A call is one RPC of the application, an attempt one try of it, numbered from
// 1; attempt 1 is the original. A retry is attempt 2 and later. A budget is the
// shared allowance of retries, counted in tokens. Guidance is what the server
// says about retrying: grpc-retry-pushback-ms (gRFC A6) and
// google.rpc.RetryInfo.
//
// # Place in a chain
//
// Interceptors outside (given to grpc.WithChainUnaryInterceptor before this
// one, or in earlier dial options) see calls: one begin, one end, the final
// error. Interceptors inside see attempts. So:
//
//   - Logging or metrics outside count what the application sees, inside what
//     the network sees; [AttemptFromContext] tells an inner one which attempt it
//     is in.
//   - A timeout interceptor outside bounds the whole call, inside each attempt;
//     prefer [Policy].Timeout and [Policy].PerAttemptTimeout, which know of each
//     other.
//   - A bulkhead outside holds one permit for the whole call, waits included; it
//     bounds calls. Inside it takes one for each attempt; it bounds load on the
//     dependency and gives the permit back during waits.
//   - A circuit breaker or limiter belongs inside, so that it sees each attempt,
//     and marks its own refusals with [Final], so that they are not retried.
//   - A selector around the interceptor decides which methods it serves at all.
//
// # Where policies are kept
//
// In options of [New], in a file or message ([WithConfig]), in the method's .proto
// file (the option (retrybudget.v1.retry)), and in the service config that the
// resolver delivered ([WithResolverPolicies]). [WithConfig] says which comes first.
//
// # What is and is not retried
//
// Codes, idempotency and guidance decide, in that order of strength; see
// [Policy], [Idempotency] and [Classifier]. The default retries UNAVAILABLE
// unless the method is marked non-idempotent, RESOURCE_EXHAUSTED when the server
// says when to come back, and timeouts and ABORTED on idempotent methods only.
// Unlike gRFC A6, response headers that the server sent before it failed do not
// stop a retry of a unary call.
//
// # When retries stop
//
// Retries end, always with the server's own error kept, when the budget, the
// attempts or the time run out, when the server forbids them, or when the caller
// gives up; see [Error] and [Reason]. A wait that would not leave time for an
// attempt is not begun.
package retrybudget
