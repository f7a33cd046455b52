package differential_test

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/retrybudget/retrybudget/internal/rpctest"
)

// answer is what the server says to one attempt: a status, and all that can
// come with it.
type answer struct {
	code    codes.Code
	message string
	details []protoadapt.MessageV1
	header  metadata.MD
	early   bool // the header is sent before the status is known
	trailer metadata.MD
}

func (a answer) step() rpctest.Step {
	return func(_ context.Context, stream grpc.ServerStream) error {
		set := stream.SetHeader
		if a.early {
			set = stream.SendHeader
		}
		if err := set(a.header); err != nil {
			return err
		}
		stream.SetTrailer(a.trailer)
		st := status.New(a.code, a.message)
		if len(a.details) == 0 {
			return st.Err()
		}
		st, err := st.WithDetails(a.details...)
		if err != nil {
			return err
		}
		return st.Err()
	}
}

// steps are the answers to successive attempts.
func steps(answers ...answer) []rpctest.Step {
	var s []rpctest.Step
	for _, a := range answers {
		s = append(s, a.step())
	}
	return s
}
