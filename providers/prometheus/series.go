package prometheus

import (
	"strings"
	"sync/atomic"

	prom "github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

// codeNames are the values of grpc_code, by slot.
var codeNames = func() (all [codes.Unauthenticated + 1]string) {
	for i := range all {
		all[i] = codes.Code(i).String()
	}
	return all
}()

// slot returns the place of a code in counts by code. A server may send any
// number; those that gRPC does not know count as UNKNOWN, which it says they are.
func slot(c codes.Code) codes.Code {
	if int(c) >= len(codeNames) {
		return codes.Unknown
	}
	return c
}

// names are the values of the labels that every series of a method has.
type names struct{ target, service, method string }

// other are those of the methods without room.
var other = names{"other", "other", "other"}

// namesOf returns the labels of a method. As in go-grpc-middleware's provider, a
// name that is none is service "unknown", method "unknown". Names that are not
// UTF-8 would fail the whole scrape.
func namesOf(target, fullMethod string) names {
	service, method, ok := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	if !ok {
		service, method = "unknown", "unknown"
	}
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	return names{valid(target), valid(service), valid(method)}
}

// values returns the values of the labels, and more.
func (n names) values(more ...string) []string {
	return append([]string{n.target, n.service, n.method}, more...)
}

// series counts the calls of one method of one target, or of all those without
// room.
type series struct {
	names names
	// okAtOnce counts calls whose first attempt ended OK. They are not in the
	// other counts: most calls are such ones, and so they cost one addition.
	okAtOnce atomic.Uint64

	calls    [len(codeNames)]atomic.Uint64
	attempts [len(codeNames)]atomic.Uint64
	// perCall counts calls by their attempts: one for each of callAttempts, and
	// one for more; sum adds the attempts up.
	perCall [len(callAttempts) + 1]atomic.Uint64
	sum     atomic.Uint64
}

// ended counts a call that ended with code after a number of attempts, of which
// the last ended with last.
func (s *series) ended(code, last codes.Code, attempts int) {
	s.attempts[slot(last)].Add(1)
	s.calls[slot(code)].Add(1)
	s.sum.Add(uint64(attempts))
	i := 0
	for i < len(callAttempts) && attempts > callAttempts[i] {
		i++
	}
	s.perCall[i].Add(1)
}

// collect sends the metrics made of these counts, of those that are not zero.
func (s *series) collect(ch chan<- prom.Metric) {
	okAtOnce := s.okAtOnce.Load()
	byCode := func(desc *prom.Desc, counts *[len(codeNames)]atomic.Uint64) {
		for code := range counts {
			n := counts[code].Load()
			if codes.Code(code) == codes.OK {
				n += okAtOnce
			}
			if n > 0 {
				ch <- prom.MustNewConstMetric(desc, prom.CounterValue, float64(n), s.names.values(codeNames[code])...)
			}
		}
	}
	byCode(callsDesc, &s.calls)
	byCode(attemptsDesc, &s.attempts)

	buckets := make(map[float64]uint64, len(callAttempts))
	n := okAtOnce
	for i, bound := range callAttempts {
		n += s.perCall[i].Load()
		buckets[float64(bound)] = n
	}
	n += s.perCall[len(callAttempts)].Load()
	if n > 0 {
		ch <- prom.MustNewConstHistogram(callAttemptsDesc, n, float64(okAtOnce+s.sum.Load()), buckets, s.names.values()...)
	}
}
