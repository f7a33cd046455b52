package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// flight is one round trip: requests for several budgets, and what became of
// them.
type flight struct {
	budgets  []*budget
	requests []request
	answers  []answer
	errs     []error // of each request that has no answer
}

func (fl *flight) add(b *budget, r request) {
	fl.budgets = append(fl.budgets, b)
	fl.requests = append(fl.requests, r)
}

// launch sends a flight off, in a goroutine that hands it to the Fleet's when it
// is over. There is at most one under way for each budget.
func (f *Fleet) launch(fl *flight) {
	if len(fl.requests) == 0 {
		return
	}
	f.loop.flights++
	f.stats.roundTrips.Add(1)
	go func() {
		ctx, cancel := context.WithTimeout(f.ctx, f.set.Timeout)
		defer cancel()
		f.fly(ctx, fl)
		select {
		case f.landing <- fl:
		case <-f.done:
		}
	}()
}

// fly sends the requests and reads the answers. A server that does not know the
// script, because it is new or was restarted, has done nothing, so it is asked
// again with the whole script.
func (f *Fleet) fly(ctx context.Context, fl *flight) {
	fl.answers, fl.errs = make([]answer, len(fl.requests)), make([]error, len(fl.requests))
	all := make([]int, len(fl.requests))
	for i := range all {
		all[i] = i
	}
	f.exchange(ctx, fl, all, "evalsha", scriptHash)
	var unknown []int
	for i, err := range fl.errs {
		if goredis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, i)
		}
	}
	if unknown != nil {
		f.exchange(ctx, fl, unknown, "eval", script)
	}
}

// exchange sends some of the requests.
func (f *Fleet) exchange(ctx context.Context, fl *flight, which []int, command, code string) {
	pipe := f.client.Pipeline()
	cmds := make([]once, len(which))
	for n, i := range which {
		r := &fl.requests[i]
		args := append([]any{command, code, 1, r.key}, r.args(f.id, random(), &f.set)...)
		cmds[n] = once{goredis.NewCmd(ctx, args...)}
		cmds[n].SetFirstKeyPos(3)
		if err := pipe.Process(ctx, cmds[n]); err != nil {
			cmds[n].SetErr(err)
		}
	}
	_, err := pipe.Exec(ctx)
	for n, i := range which {
		value, cmdErr := cmds[n].Result()
		switch {
		case cmdErr != nil:
			fl.errs[i] = cmdErr
		case value == nil && err != nil: // not even tried
			fl.errs[i] = err
		default:
			fl.answers[i], fl.errs[i] = parse(value, &fl.requests[i], &f.set)
		}
	}
}

// once is a command that the client must not send a second time after an error:
// the server may have done it already, and would do it twice.
type once struct{ *goredis.Cmd }

// NoRetry tells the client so.
func (once) NoRetry() bool { return true }
