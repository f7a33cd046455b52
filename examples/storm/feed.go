package main

import (
	"encoding/json"
	"fmt"
	"sync"
)

// feed is a list of server-sent events that grows. Readers go through it at their
// own pace and wait at its end, so a slow one is in nobody's way. The zero value
// is an empty one.
type feed struct {
	mu     sync.Mutex
	events [][]byte
	more   chan struct{} // closed when there are more
}

// add appends an event of some kind with data as JSON.
func (f *feed) add(kind string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // JSON can hold all that is in sample.go
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, text))
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// after returns the events after the first n, and what is closed when there are
// more.
func (f *feed) after(n int) ([][]byte, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return f.events[n:], f.more
}
