package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"
)

// sample is one measured run, for each operation or part of it.
type sample struct{ ns, bytes, allocs float64 }

// measure runs s n times; an operation has so many parts. Allocations are those of the whole process, so of a
// server in it too. The garbage collector runs when it has to, which is the more
// often in a run the more that run allocates.
func measure(s subject, n, parts int) (sample, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := s.run(n)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	all := float64(n) * float64(parts)
	return sample{
		ns:     float64(took.Nanoseconds()) / all,
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / all,
		allocs: float64(after.Mallocs-before.Mallocs) / all,
	}, err
}

// mostOperations bounds a run whatever the clock says.
const mostOperations = 1_000_000_000

// calibrate returns how many operations take about d.
func calibrate(s subject, d time.Duration) (int, error) {
	for n := 1; ; {
		took, err := quickest(s, n)
		if err != nil {
			return 0, err
		}
		want := int(min(float64(n)*float64(d)/float64(took), mostOperations))
		if took >= d/2 || want <= n {
			return max(want, 1), nil
		}
		n = min(want, 100*n) // the first few say little about many
	}
}

// quickest returns the shortest of three runs, so that a pause of the process
// does not count.
func quickest(s subject, n int) (time.Duration, error) {
	least := time.Duration(math.MaxInt64)
	for range 3 {
		start := time.Now()
		if err := s.run(n); err != nil {
			return 0, err
		}
		least = min(least, max(time.Since(start), 1))
	}
	return least, nil
}

// entry is a contestant in a running section.
type entry struct {
	contestant
	subject

	operations int // in one run
	samples    []sample
}

// result is what a section came to.
type result struct {
	section section
	entries []entry
}

// compare measures the contestants of a section in rounds: A B C, B C A, … so
// that whatever else the machine does hits all alike, and nobody always runs
// after the same other. When ctx ends it returns the full rounds so far.
func compare(ctx context.Context, sec section, rounds int, benchtime time.Duration) (result, error) {
	res := result{section: sec}
	defer func() {
		for _, e := range res.entries {
			e.close()
		}
	}()
	for _, c := range sec.contestants {
		s, err := c.open()
		if err != nil {
			return res, fmt.Errorf("%s, %s: %w", sec.name, c.name, err)
		}
		res.entries = append(res.entries, entry{contestant: c, subject: s})
	}
	for i := range res.entries {
		e := &res.entries[i]
		var err error
		if e.operations, err = calibrate(e.subject, sec.runtime(benchtime)); err != nil {
			return res, fmt.Errorf("%s, %s: %w", sec.name, e.name, err)
		}
	}
	for round := range rounds {
		if err := res.round(ctx, round); err != nil {
			return res, err
		}
	}
	return res, nil
}

// round measures each contestant once, and keeps all samples or, when ctx ends,
// none.
func (r *result) round(ctx context.Context, round int) error {
	samples := make([]sample, len(r.entries))
	for turn := range r.entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		i := (round + turn) % len(r.entries)
		var err error
		if samples[i], err = measure(r.entries[i].subject, r.entries[i].operations, r.section.parts()); err != nil {
			return fmt.Errorf("%s, %s: %w", r.section.name, r.entries[i].name, err)
		}
	}
	for i := range r.entries {
		r.entries[i].samples = append(r.entries[i].samples, samples[i])
	}
	return nil
}
