package main

import (
	"context"
	"embed"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/retrybudget/retrybudget/examples/internal/terminal"
)

//go:embed page
var pageFiles embed.FS

// site is what -serve shows over HTTP, while a run goes on and after it.
type site struct {
	config   config
	url      string
	registry *prom.Registry
	feed     feed
	server   *http.Server
	// patience is how long a client may take to read an event.
	patience time.Duration

	closing context.Context //nolint:containedctx // ends with close
	cancel  context.CancelFunc
	readers atomic.Int64 // of events
}

// openSite listens at the address of the config and serves until closed.
func openSite(c config) (*site, error) {
	listener, err := net.Listen("tcp", c.Serve)
	if err != nil {
		return nil, err
	}
	s := newSite(c)
	s.url = "http://" + listener.Addr().String() + "/"
	s.server = &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	go s.server.Serve(listener) //nolint:errcheck // ends with close
	return s, nil
}

func newSite(c config) *site {
	s := &site{config: c, registry: prom.NewRegistry(), patience: 10 * time.Second}
	s.closing, s.cancel = context.WithCancel(context.Background())
	return s
}

// close ends the answers under way and stops serving.
func (s *site) close() {
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil { // somebody does not read their answer
		s.server.Close()
	}
}

func (s *site) handler() http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the name is that of the folder above
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /events", s.events)
	mux.Handle("GET /", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// events writes the run so far and then what happens, until the client goes, or
// does not read for too long.
func (s *site) events(w http.ResponseWriter, r *http.Request) {
	s.readers.Add(1)
	defer s.readers.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for seen := 0; ; {
		events, more := s.feed.after(seen)
		seen += len(events)
		for _, e := range events {
			if control.SetWriteDeadline(time.Now().Add(s.patience)) != nil {
				return
			}
			if _, err := w.Write(e); err != nil {
				return
			}
		}
		if control.Flush() != nil {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		case <-s.closing.Done():
			return
		}
	}
}

// follow returns a show that also shows the run here.
func (s *site) follow(show func(context.Context, *live)) func(context.Context, *live) {
	return func(ctx context.Context, l *live) {
		var following sync.WaitGroup
		following.Go(func() { s.show(ctx, l) })
		show(ctx, l)
		following.Wait()
	}
}

func (s *site) show(ctx context.Context, l *live) {
	for _, w := range l.worlds {
		if w.watched != nil {
			prom.WrapRegistererWith(prom.Labels{"strategy": w.strategy.Name}, s.registry).MustRegister(w.watched.metrics)
		}
	}
	s.feed.add("story", showStory(s.config, l))
	samples := newSampler(l)
	take := func() {
		if next, ok := samples.next(); ok {
			s.feed.add("sample", next)
		}
	}
	terminal.Every(ctx, sampleStep(l.Length()), take)
	take()
}

// end says that the run is over.
func (s *site) end(r result) {
	note := finalNote{Interrupted: r.Interrupted}
	if r.Machine.Saturated() {
		note.Warning = machineText(r.Machine)
	}
	s.feed.add("end", note)
}
