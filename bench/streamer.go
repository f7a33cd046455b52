package main

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	quickstartv1 "github.com/retrybudget/retrybudget/proto/retrybudget/quickstart/v1"
)

// maxKeptAllocs is the most allocations that the interceptor may make for a
// message that it keeps for replay.
const maxKeptAllocs = 1

// anotherEncoding encodes every message that is sent once more and keeps the
// bytes: the least that being able to send it again can cost.
const anotherEncoding = "one more encoding"

// streamerSections measure stream interceptors alone, around streams that do
// nothing: what is left is their own cost for a message.
func streamerSections() []section {
	of := func(name string, use usage, maxAllocs int, others ...contestant) section {
		contestants := []contestant{
			{bareName, streamerSubject(bareStreams, use), -1},
			{retrybudget, streamerSubject(retrybudgetStreams, use), maxAllocs},
		}
		return section{name: "streamer/" + name, bare: bareName, per: messages, contestants: append(contestants, others...)}
	}
	return []section{
		of("receive", receive, 0, contestant{middleware, streamerSubject(middlewareStreams, receive), -1}),
		of("send", send, maxKeptAllocs, contestant{anotherEncoding, streamerSubject(encodingStreams, send), -1}),
		of("send-committed", sendCommitted, 0),
	}
}

// streamerSubject uses streams through an interceptor, on a real connection that
// is never used.
func streamerSubject(build func() (grpc.StreamClientInterceptor, error), use usage) func() (subject, error) {
	return func() (subject, error) {
		intercept, err := build()
		if err != nil {
			return subject{}, err
		}
		cc, err := grpc.NewClient("passthrough:///bench", grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return subject{}, err
		}
		client := quickstartv1.NewInventoryServiceClient(idleConn{cc, intercept})
		run := func(n int) error {
			for range n {
				if err := use(context.Background(), client); err != nil {
					return err
				}
			}
			return nil
		}
		return subject{run: run, close: func() { _ = cc.Close() }}, nil
	}
}

// idleConn is a connection whose streams do nothing.
type idleConn struct {
	*grpc.ClientConn

	intercept grpc.StreamClientInterceptor
}

// NewStream opens one.
func (c idleConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.intercept(ctx, desc, c.ClientConn, method, openIdle, opts...)
}

// idleStream has messages that cost nothing.
type idleStream struct {
	ctx  context.Context //nolint:containedctx // a stream owns its context
	left int             // messages to receive
}

func openIdle(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	s := &idleStream{ctx: ctx, left: 1}
	if desc.ServerStreams {
		s.left = messages
	}
	return s, nil
}

// SendMsg does nothing.
func (*idleStream) SendMsg(any) error { return nil }

// CloseSend does nothing.
func (*idleStream) CloseSend() error { return nil }

// RecvMsg counts, up to io.EOF.
func (s *idleStream) RecvMsg(any) error {
	if s.left == 0 {
		return io.EOF
	}
	s.left--
	return nil
}

var idleHeader = metadata.Pairs("content-type", "application/grpc")

// Header returns what every server sends.
func (*idleStream) Header() (metadata.MD, error) { return idleHeader, nil }

// Trailer returns none.
func (*idleStream) Trailer() metadata.MD { return nil }

// Context returns the one that the stream was opened with.
func (s *idleStream) Context() context.Context { return s.ctx }

func bareStreams() (grpc.StreamClientInterceptor, error) {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(ctx, desc, cc, method, opts...)
	}, nil
}

func encodingStreams() (grpc.StreamClientInterceptor, error) {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, cc, method, opts...)
		return &encodingStream{ClientStream: s}, err
	}, nil
}

// encodingStream keeps what it sends as bytes.
type encodingStream struct {
	grpc.ClientStream

	kept [][]byte
}

// SendMsg encodes m.
func (s *encodingStream) SendMsg(m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return errMessages
	}
	bytes, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	s.kept = append(s.kept, bytes)
	return s.ClientStream.SendMsg(m)
}
