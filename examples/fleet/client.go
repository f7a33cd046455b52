package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/retrybudget/retrybudget/examples/internal/loopback"
	"github.com/retrybudget/retrybudget/examples/internal/openloop"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// clientVariable holds the job of a client process, which is this program once
// more.
const clientVariable = "RETRYBUDGET_FLEET_CLIENT"

// job is what a client process is told when it starts. When it is connected it
// writes "ready" in a line, reads the moment of the start, in nanoseconds, from
// its input, makes its calls, and writes its outcomes.
type job struct {
	Config   config
	Strategy int // index
	Process  int
	First    int    // number of its first call
	Server   string // address
	Redis    string // address
	Prefix   string
}

// outcomes is what a client process saw.
type outcomes struct {
	OK    []bool          // of each call
	Ended []time.Duration // after the start
	Late  []time.Duration // after its moment, when it was begun
}

func clientMain(text string, in io.Reader, out, errs io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = runClient(ctx, cancel, j, bufio.NewReader(in), out)
	}
	if err != nil {
		fmt.Fprintf(errs, "fleet: client process: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// runClient ends early when its input does: then the program that started it is
// gone.
func runClient(ctx context.Context, cancel context.CancelFunc, j job, in *bufio.Reader, out io.Writer) error {
	options, end, err := strategies[j.Strategy].client(j)
	if err != nil {
		return err
	}
	conn, err := loopback.Connect(ctx, j.Server, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	line, err := in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("no start: %w", err)
	}
	start, err := strconv.ParseInt(line[:len(line)-1], 10, 64)
	if err != nil {
		return err
	}
	go func() {
		in.ReadByte() //nolint:errcheck // the end is what it waits for
		cancel()
	}()
	seen := makeCalls(ctx, j, conn, time.Unix(0, start))
	if end != nil {
		closing, done := context.WithTimeout(ctx, 2*time.Second)
		defer done()
		err = end(closing)
	}
	return errors.Join(err, json.NewEncoder(out).Encode(seen))
}

// makeCalls starts each call at its moment and returns when all have ended.
func makeCalls(ctx context.Context, j job, conn *grpc.ClientConn, start time.Time) outcomes {
	c := j.Config
	calls := c.arrivals(j.Process)
	seen := outcomes{
		OK:    make([]bool, len(calls)),
		Ended: make([]time.Duration, len(calls)),
		Late:  make([]time.Duration, len(calls)),
	}
	client := quickstartv1.NewInventoryServiceClient(conn)
	var running sync.WaitGroup
	for i, at := range calls {
		moment := start.Add(at)
		if !openloop.WaitUntil(ctx, moment) {
			break
		}
		running.Go(func() {
			seen.Late[i] = time.Since(moment)
			deadline, cancel := context.WithTimeout(ctx, c.Deadline)
			defer cancel()
			_, err := client.GetStock(deadline, &quickstartv1.GetStockRequest{Sku: strconv.Itoa(j.First + i)})
			seen.OK[i], seen.Ended[i] = err == nil, time.Since(start)
		})
	}
	running.Wait()
	return seen
}
