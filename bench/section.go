package main

import (
	"slices"
	"time"
)

// section is one thing to do, and who does it.
type section struct {
	// name is what -run matches, as in "invoker/success".
	name string
	// bare names the contestant that does the least.
	bare        string
	contestants []contestant
	// stretch, if not 0, makes the runs so many times longer: a slow operation
	// needs more time to be done often enough.
	stretch int
	// per, if not 0, is how many parts an operation has; figures are for one.
	per int
}

// runtime is how long a run takes where others take benchtime.
func (s section) runtime(benchtime time.Duration) time.Duration {
	return benchtime * time.Duration(max(s.stretch, 1))
}

// parts is how many an operation has.
func (s section) parts() int { return max(s.per, 1) }

// contestant is one way to do it.
type contestant struct {
	name string
	// open prepares a subject.
	open func() (subject, error)
	// maxAllocs is how many allocations an operation may make, -1 for any
	// number. The quick form checks it.
	maxAllocs int
}

// subject is a contestant made ready.
type subject struct {
	// run does the thing n times and reports the first that came out wrong.
	run func(n int) error
	// close gives up what open took.
	close func()
}

// The contestants of the sections about calls. middleware is what all others are
// compared with.
const (
	bareName    = "bare"
	retrybudget = "retrybudget"
	middleware  = "go-grpc-middleware"
	native      = "grpc-go retryPolicy"
	failsafe    = "failsafe-go"
)

// sections returns all of them, in the order of the table.
func sections() []section {
	return slices.Concat(invokerSections(), streamerSections(), rpcSections(), streamSections(), budgetSections())
}

func nothing() {}
