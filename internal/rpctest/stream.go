package rpctest

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Streams sets the handlers of a method of any call kind: one for each attempt
// of a logical call, the last one for all that follow. Unlike with [Server.Script]
// nothing is received or sent for them.
func (s *Server) Streams(method string, handlers ...func(grpc.ServerStream) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[method] = handlers
}

// handleStream runs the handler of a streaming attempt, if the method has one.
func (s *Server) handleStream(stream grpc.ServerStream, method string) (handled bool, err error) {
	md, _ := metadata.FromIncomingContext(stream.Context())
	e := Entry{Method: method, MD: md, At: time.Now(), Finished: stream.Context().Done()}
	if v := md.Get(CallID); len(v) > 0 {
		e.CallID = v[0]
	}
	if deadline, ok := stream.Context().Deadline(); ok {
		e.Left = time.Until(deadline)
	}
	s.mu.Lock()
	handlers := s.streams[method]
	if len(handlers) == 0 {
		s.mu.Unlock()
		return false, nil
	}
	s.entries = append(s.entries, e)
	key := method + " " + e.CallID
	handler := handlers[min(s.seen[key], len(handlers)-1)]
	s.seen[key]++
	s.mu.Unlock()
	return true, handler(stream)
}
