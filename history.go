package retrybudget

// keptRecords is how many attempts are remembered from the start of a call, and
// from its end.
const keptRecords = 15

// history is the failed attempts of a call. As many as a call has by default
// before its last attempt take no allocation.
type history struct {
	first [defaultMaxAttempts - 1]AttemptRecord
	count int             // of first
	kept  []AttemptRecord // all of them instead, once they are more
}

// add returns the place of a further attempt, valid until the next. The first and
// the last attempts are kept.
func (h *history) add() *AttemptRecord {
	switch {
	case h.count < len(h.first) && h.kept == nil:
		h.count++
		return &h.first[h.count-1]
	case len(h.kept) == 2*keptRecords:
		copy(h.kept[keptRecords:], h.kept[keptRecords+1:])
		h.kept = h.kept[:2*keptRecords-1]
	}
	h.kept = append(h.all(), AttemptRecord{})
	return &h.kept[len(h.kept)-1]
}

// all returns what is kept. The caller may hold on to it if nothing is added
// afterwards.
func (h *history) all() []AttemptRecord {
	if h.kept == nil {
		h.kept = make([]AttemptRecord, h.count, 2*len(h.first))
		copy(h.kept, h.first[:h.count])
	}
	return h.kept
}

// last returns the last attempt but n.
func (h *history) last(n int) *AttemptRecord {
	if h.kept != nil {
		return &h.kept[len(h.kept)-1-n]
	}
	return &h.first[h.count-1-n]
}
