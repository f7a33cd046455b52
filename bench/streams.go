package main

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// again is bare once more: the difference of the two is what the measurement
// itself is worth.
const again = "bare, again"

// streamSections measure streams of a thousand messages to a server in the same
// process; what both sides do for a message counts.
func streamSections() []section {
	var all []section
	for _, n := range []struct {
		name   string
		listen func() (network, error)
	}{{"bufconn", listenBufconn}, {"tcp", listenTCP}} {
		enter := func(name string, build func() (grpc.StreamClientInterceptor, error), use usage) contestant {
			return contestant{name, streamSubject(n.listen, interceptedStreams(build), use), -1}
		}
		all = append(all,
			// Only server streams: go-grpc-middleware refuses the others.
			streamSection(n.name+"/receive", n.listen, receive, enter(middleware, middlewareStreams, receive)),
			streamSection(n.name+"/send", n.listen, send, enter(anotherEncoding, encodingStreams, send)),
			streamSection(n.name+"/send-committed", n.listen, sendCommitted))
	}
	return all
}

func streamSection(name string, listen func() (network, error), use usage, others ...contestant) section {
	enter := func(name string, dial func() ([]grpc.DialOption, error)) contestant {
		return contestant{name, streamSubject(listen, dial, use), -1}
	}
	return section{name: name, bare: bareName, stretch: rpcStretch, per: messages, contestants: append([]contestant{
		enter(bareName, dialBare),
		enter(again, dialBare),
		enter(retrybudget, dialDefault),
		enter(native, dialNative),
	}, others...)}
}

// streamSubject is a server with one client connection, and one stream at a time.
func streamSubject(listen func() (network, error), dial func() ([]grpc.DialOption, error), use usage) func() (subject, error) {
	return func() (subject, error) {
		cc, stop, err := connect(listen, dial, &streamService{})
		if err != nil {
			return subject{}, err
		}
		client := quickstartv1.NewInventoryServiceClient(cc)
		run := func(n int) error {
			for range n {
				if err := use(context.Background(), client); err != nil {
					return err
				}
			}
			return nil
		}
		return subject{run: run, close: stop}, nil
	}
}

// streamService has streams.
type streamService struct {
	quickstartv1.UnimplementedInventoryServiceServer
}

// WatchStock sends messages.
func (*streamService) WatchStock(req *quickstartv1.WatchStockRequest, stream grpc.ServerStreamingServer[quickstartv1.WatchStockResponse]) error {
	m := &quickstartv1.WatchStockResponse{Sku: req.GetSku(), Quantity: 7}
	for range messages {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// ImportStock sends headers at once and receives messages.
func (*streamService) ImportStock(stream grpc.ClientStreamingServer[quickstartv1.ImportStockRequest, quickstartv1.ImportStockResponse]) error {
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	m := new(quickstartv1.ImportStockRequest)
	for n := 0; ; n++ {
		err := stream.RecvMsg(m)
		switch {
		case errors.Is(err, io.EOF) && n == messages:
			return stream.SendAndClose(&quickstartv1.ImportStockResponse{Deliveries: messages})
		case errors.Is(err, io.EOF):
			return errMessages
		case err != nil:
			return err
		}
	}
}
