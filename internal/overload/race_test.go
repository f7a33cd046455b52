//go:build race

package overload_test

const raceDetector = true
