package prometheus

import prom "github.com/prometheus/client_golang/prometheus"

// level is the state of a budget, or of several added up; lowest is what the
// emptiest of them holds.
type level struct{ tokens, lowest, capacity float64 }

// collectBudgets sends the metrics made of the state of the watched Retriers.
func (m *Metrics) collectBudgets(ch chan<- prom.Metric) {
	watched := m.watched()
	if len(watched) == 0 {
		return // nothing is known, not even that it is 0
	}
	levels := map[*series]level{}
	var replay int64
	for _, r := range watched {
		replay += r.ReplayBytes()
		for b := range r.Budgets() {
			s := m.table.other // also of what found no room in the Retrier
			if b.Target != "" || b.Method != "" {
				s = m.table.get(b.Target, b.Method)
			}
			sum, more := levels[s]
			if !more {
				sum.lowest = b.Tokens
			}
			levels[s] = level{sum.tokens + b.Tokens, min(sum.lowest, b.Tokens), sum.capacity + b.Capacity}
		}
	}
	for s, l := range levels {
		ch <- prom.MustNewConstMetric(tokensDesc, prom.GaugeValue, l.tokens, s.names.values()...)
		ch <- prom.MustNewConstMetric(lowestDesc, prom.GaugeValue, l.lowest, s.names.values()...)
		ch <- prom.MustNewConstMetric(capacityDesc, prom.GaugeValue, l.capacity, s.names.values()...)
	}
	ch <- prom.MustNewConstMetric(replayDesc, prom.GaugeValue, float64(replay))
}
