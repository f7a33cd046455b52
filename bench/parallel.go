package main

import (
	"errors"
	"sync"
)

// parallel shares n operations out among so many goroutines and returns when all
// are done. do does its share.
func parallel(goroutines, n int, do func(n int) error) error {
	if goroutines == 1 {
		return do(n)
	}
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for i := range goroutines {
		share := n / goroutines
		if i < n%goroutines {
			share++
		}
		wg.Go(func() { errs[i] = do(share) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
