package retrybudget_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestStreamCodec_dynamicMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, reading(1, failing(unavailable("x"))), collecting)
		cs := open(t.Context(), t, s.Dial(t, newRetrier(t).DialOptions()...), clientStream)
		m := dynamicpb.NewMessage(wrapperspb.String("").ProtoReflect().Descriptor())
		value := m.Descriptor().Fields().ByName("value")
		for _, text := range []string{"a", "b"} {
			m.Reset()
			m.Set(value, protoreflect.ValueOfString(text))
			require.NoError(t, cs.SendMsg(m))
			synctest.Wait()
		}
		require.NoError(t, cs.CloseSend())
		got := dynamicpb.NewMessage(m.Descriptor())
		require.NoError(t, cs.RecvMsg(got))
		assert.Equal(t, "ab", got.Get(value).String())
		assert.Equal(t, 2, s.AttemptsOf(streamMethod))
	})
}

// All ways to choose a codec, with messages that are not protobuf's.
func TestStreamCodec_otherCodecs(t *testing.T) {
	t.Parallel()
	v2 := encoding.GetCodecV2(proto.Name)
	for name, test := range map[string]struct {
		opts  []grpc.CallOption
		proto bool
	}{
		"content subtype":     {opts: []grpc.CallOption{grpc.CallContentSubtype(noteSubtype)}},
		"ForceCodec":          {opts: []grpc.CallOption{grpc.ForceCodec(noteCodec{})}},
		"CallCustomCodec":     {opts: []grpc.CallOption{grpc.CallCustomCodec(noteCodec{}), grpc.CallContentSubtype(noteSubtype)}}, //nolint:staticcheck // deprecated, but people have it
		"ForceCodecV2":        {opts: []grpc.CallOption{grpc.ForceCodecV2(v2)}, proto: true},
		"last one wins":       {opts: []grpc.CallOption{grpc.ForceCodecV2(v2), grpc.ForceCodec(noteCodec{}), grpc.CallContentSubtype(noteSubtype)}},
		"subtype is no codec": {opts: []grpc.CallOption{grpc.ForceCodec(noteCodec{}), grpc.CallContentSubtype("proto")}},
		"proto subtype":       {opts: []grpc.CallOption{grpc.CallContentSubtype("PROTO")}, proto: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "subtype is no codec" {
				// The server would take its codec from the subtype: only the
				// client's choice is looked at here.
				test.opts[1] = grpc.CallContentSubtype(noteSubtype)
			}
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, reading2(test.proto, 2, unavailable("x")), reading2(test.proto, 3, nil))
				r := newRetrier(t)
				cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), clientStream, test.opts...)
				n, text := &note{}, &wrapperspb.StringValue{}
				for i := range 3 {
					var m any = n
					n.A, text.Value = fmt.Sprint(i), fmt.Sprint(i)
					if test.proto {
						m = text
					}
					require.NoError(t, cs.SendMsg(m))
					synctest.Wait()
				}
				assert.Positive(t, r.ReplayBytes())
				require.NoError(t, cs.CloseSend())
				var got any = n
				n.A, text.Value = "", ""
				if test.proto {
					got = text
				}
				require.NoError(t, cs.RecvMsg(got))
				assert.Equal(t, "012", n.A+text.Value)
				assert.Equal(t, 2, s.AttemptsOf(streamMethod))
			})
		})
	}
}

// reading2 receives n messages and sends them joined, or fails with err.
func reading2(isProto bool, n int, err error) func(grpc.ServerStream) error {
	return func(ss grpc.ServerStream) error {
		all := ""
		for range n {
			var m note
			var text wrapperspb.StringValue
			var into any = &m
			if isProto {
				into = &text
			}
			if err := ss.RecvMsg(into); err != nil {
				return err
			}
			all += m.A + text.GetValue()
		}
		if err != nil {
			return err
		}
		if isProto {
			return send(ss, all)
		}
		return ss.SendMsg(&note{A: all})
	}
}

// A message that can be encoded but not recreated cannot be sent again: the call
// ends with the failure that it had.
func TestStreamCodec_messageThatCannotBeRecreated(t *testing.T) {
	t.Parallel()
	for kind, desc := range map[string]*grpc.StreamDesc{"client": clientStream, "bidi": bidiStream} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := streamServer(t, failing(unavailable("shard 7 down")), collecting)
				r, opens := newRetrier(t), 0
				cc := s.Dial(t, tapped(r, func(n int, _ *tap) { opens = n })...)
				cs := open(t.Context(), t, cc, desc, grpc.CallContentSubtype(noteSubtype))
				require.NoError(t, cs.SendMsg(&note{A: "a", Odd: true}))

				err := cs.RecvMsg(&note{})

				assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
				assert.ErrorContains(t, err, "shard 7 down")
				assert.Equal(t, 2, opens, "no attempt can have it")
				assert.Zero(t, r.ReplayBytes())
			})
		})
	}
}

// The failure that it had may be its own timeout.
func TestStreamCodec_messageThatCannotBeRecreatedAfterATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, hanging)
		cs := open(t.Context(), t, s.Dial(t, newRetrier(t, perTry(3)).DialOptions()...), bidiStream, grpc.CallContentSubtype(noteSubtype))
		require.NoError(t, cs.SendMsg(&note{A: "a", Odd: true}))

		err := cs.RecvMsg(&note{})

		assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
		assert.ErrorContains(t, err, "attempt 1 timed out after 1s")
	})
}
