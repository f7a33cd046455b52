// Quickstart shows a call that is retried within a budget, one that an empty
// budget stops, and a stream, on a real gRPC server over loopback TCP. It prints
// what the server saw and what the caller got, and exits with 1 if either is not
// as it should be.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/retrybudget/retrybudget"
	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// scenes are what the program shows, in order. Each has a server of its own,
// which refuses the first two attempts.
var scenes = []scene{
	{
		title:    "A budget with 5 tokens: GetStock fails twice and then succeeds.",
		tokens:   5,
		call:     getStock,
		attempts: 3,
	},
	{
		title:    "The same call with an empty budget: nothing is retried.",
		tokens:   0,
		call:     getStock,
		attempts: 1,
		reason:   retrybudget.ReasonBudget,
	},
	{
		title:    "A stream: WatchStock fails twice before its first message and then delivers.",
		tokens:   5,
		call:     watchStock,
		attempts: 3,
	},
}

// run plays the scenes. It returns an error as soon as one does not end as it
// should.
func run(ctx context.Context, out io.Writer) error {
	for i, s := range scenes {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%d. %s\n", i+1, s.title)
		o, err := s.play(ctx)
		if err != nil {
			return fmt.Errorf("quickstart: scene %d: %w", i+1, err)
		}
		if err := o.print(out); err != nil {
			return fmt.Errorf("quickstart: %w", err)
		}
		if err := s.check(o); err != nil {
			return fmt.Errorf("quickstart: scene %d: %w", i+1, err)
		}
	}
	return nil
}

// getStock makes one call as any application would: nothing in it is about
// retries.
func getStock(ctx context.Context, client quickstartv1.InventoryServiceClient) (string, error) {
	stock, err := client.GetStock(ctx, &quickstartv1.GetStockRequest{Sku: "bolt-m8"})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d pieces of %s", stock.GetQuantity(), stock.GetSku()), nil
}

// watchStock reads a stream to its end, in the usual way too.
func watchStock(ctx context.Context, client quickstartv1.InventoryServiceClient) (string, error) {
	stream, err := client.WatchStock(ctx, &quickstartv1.WatchStockRequest{Sku: "bolt-m8"})
	if err != nil {
		return "", err
	}
	var quantities []string
	for {
		stock, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return strings.Join(quantities, ", then ") + " pieces", nil
		}
		if err != nil {
			return "", err
		}
		quantities = append(quantities, strconv.FormatInt(stock.GetQuantity(), 10))
	}
}
