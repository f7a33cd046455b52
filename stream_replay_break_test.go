package retrybudget_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrybudget/retrybudget"
)

// dynamicTypes returns n types of messages with one field of bytes.
func dynamicTypes(t testing.TB, n int) protoreflect.MessageDescriptors {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{Name: new("break.proto"), Syntax: new("proto3")}
	for i := range n {
		file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{
			Name: new(fmt.Sprint("M", i)),
			Field: []*descriptorpb.FieldDescriptorProto{{
				Name: new("b"), Number: new(int32(1)),
				Type: descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}},
		})
	}
	d, err := protodesc.NewFile(file, nil)
	require.NoError(t, err)
	return d.Messages()
}

// readingBytes receives n messages, fewer at the half-close, notes their bytes and
// ends as next does.
func readingBytes(n int, note func(all [][]byte), next func(grpc.ServerStream) error) func(grpc.ServerStream) error {
	return func(ss grpc.ServerStream) error {
		var all [][]byte
		for range n {
			m := &emptypb.Empty{}
			if err := ss.RecvMsg(m); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
			all = append(all, m.ProtoReflect().GetUnknown())
		}
		note(all)
		return next(ss)
	}
}

// Every attempt gets the same messages, byte for byte, of whatever type and size,
// though the application uses each of them again at once.
func TestStreamBreak_replaysByteForByte(t *testing.T) {
	t.Parallel()
	const messages = 120
	types := dynamicTypes(t, 140)
	for seed, kinds := range []int{1, 3, 100, 126, 127, 128, 140} {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 7)) //nolint:gosec // repeatable
			var got [][][]byte
			note := func(all [][]byte) { got = append(got, all) }
			s := streamServer(t,
				readingBytes(random.IntN(messages), note, failing(unavailable("x"))),
				readingBytes(random.IntN(messages), note, failing(unavailable("x"))),
				readingBytes(messages+1, note, failing(unavailable("x"))),
				readingBytes(messages+1, note, sending(nil, "m")))
			r := newRetrier(t, atOnce(4), retrybudget.WithReplayLimits(1<<20, 1<<20))
			cs := open(t.Context(), t, s.Dial(t, r.DialOptions()...), clientStream)
			var want [][]byte
			for range messages {
				m := randomOf(random, types, kinds)
				data, err := proto.Marshal(m)
				require.NoError(t, err)
				want = append(want, data)
				require.NoError(t, cs.SendMsg(m))
				proto.Reset(m)
				if random.IntN(20) == 0 {
					synctest.Wait()
				}
			}
			require.NoError(t, cs.CloseSend())

			_, err := recvOne(cs)

			if kinds < 126 { // with more, two fixed ones beside them may be too many
				require.NoError(t, err)
				require.Len(t, got, 4)
				require.Len(t, got[3], messages)
			}
			for i, all := range got {
				for j, b := range all {
					require.Equal(t, string(want[j]), string(b), "attempt %d, message %d", i+1, j)
				}
			}
			assert.Zero(t, r.ReplayBytes())
		})
	}
}

// randomOf returns a message of one of the first n of types, or another, of a
// size about where lengths get longer.
func randomOf(random *rand.Rand, types protoreflect.MessageDescriptors, n int) proto.Message {
	sizes := []int{0, 1, 250, 251, 252, 253, 254, 255, 256, 257, 4093, 4096, 9000}
	content := bytes.Repeat([]byte{byte(random.IntN(128))}, sizes[random.IntN(len(sizes))])
	switch random.IntN(6) {
	case 0:
		return wrapperspb.String(string(content))
	case 1:
		return &emptypb.Empty{}
	}
	m := dynamicpb.NewMessage(types.Get(random.IntN(n)))
	m.Set(m.Descriptor().Fields().Get(0), protoreflect.ValueOfBytes(content))
	return m
}

// An interceptor further in that changes messages in place changes each attempt's
// alike.
func TestStreamBreak_interceptorChangesMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, reading(1, failing(unavailable("x"))), reading(2, failing(unavailable("x"))), collecting)
		cc := s.Dial(t, tapped(newRetrier(t, atOnce(3)), func(_ int, s *tap) {
			s.send = func(m any, next func(any) error) error {
				m.(*wrapperspb.StringValue).Value += "!" //nolint:errcheck,forcetypeassert // all that is sent here
				return next(m)
			}
		})...)
		cs := open(t.Context(), t, cc, clientStream)
		for _, text := range []string{"a", "b", "c"} {
			require.NoError(t, cs.SendMsg(wrapperspb.String(text)))
			synctest.Wait() // so that the next one meets an attempt that failed
		}
		require.NoError(t, cs.CloseSend())
		got, err := recvOne(cs)
		require.NoError(t, err)
		assert.Equal(t, "a!b!c!", got)
	})
}

// rawFrame is a message that is not decoded, as proxies have it.
type rawFrame struct{ data []byte }

// rawCodec gives rawFrames a view of the bytes that it is given.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*rawFrame); ok {
		return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*rawFrame)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	f.data = data[0].ReadOnlyData()
	return nil
}

func TestStreamBreak_codecThatAliases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := streamServer(t, reading(1, failing(unavailable("x"))), reading(1, failing(unavailable("x"))), collecting)
		cc := s.Dial(t, tapped(newRetrier(t, atOnce(3)), func(_ int, s *tap) {
			s.send = func(m any, next func(any) error) error {
				f := m.(*rawFrame) //nolint:errcheck,forcetypeassert // all that is sent here
				f.data[len(f.data)-1]++
				return next(m)
			}
		})...)
		cs := open(t.Context(), t, cc, clientStream, grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2(protocodec.Name)}))
		data, err := proto.Marshal(wrapperspb.String("a"))
		require.NoError(t, err)
		require.NoError(t, cs.SendMsg(&rawFrame{data}))
		require.NoError(t, cs.CloseSend())
		got, err := recvOne(cs)
		require.NoError(t, err)
		assert.Equal(t, "b", got)
	})
}

// answerCodec decodes what its user receives and nothing else.
type answerCodec struct{ encoding.CodecV2 }

func (c answerCodec) Unmarshal(data mem.BufferSlice, v any) error {
	return c.CodecV2.Unmarshal(data, v.(*wrapperspb.StringValue)) //nolint:errcheck,forcetypeassert // that is its fault
}

// What breaks in a replay breaks the call, not the program: this runs in another.
func TestStreamBreak_panicInReplay(t *testing.T) {
	t.Parallel()
	if os.Getenv("RETRYBUDGET_BREAK") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$") //nolint:gosec // ourselves
		cmd.Env = append(os.Environ(), "RETRYBUDGET_BREAK=1")
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%s", out)
		return
	}
	for name, test := range map[string]struct {
		opts    []grpc.CallOption
		breakIt func()
	}{
		"codec for answers only":       {[]grpc.CallOption{grpc.ForceCodecV2(answerCodec{encoding.GetCodecV2(protocodec.Name)})}, func() {}},
		"interceptor panics":           {nil, func() { panic("broken") }},
		"interceptor ends a goroutine": {nil, runtime.Goexit},
	} {
		t.Run(name, func(t *testing.T) {
			s := streamServer(t, reading(1, failing(unavailable("x"))), collecting)
			r := newRetrier(t, atOnce(3))
			cc := s.Dial(t, tapped(r, func(n int, s *tap) {
				s.send = func(m any, next func(any) error) error {
					if n == 2 {
						test.breakIt()
					}
					return next(m)
				}
			})...)
			cs := open(t.Context(), t, cc, clientStream, test.opts...)
			require.NoError(t, cs.SendMsg(durationpb.New(1)))
			require.NoError(t, cs.CloseSend())
			_, err := recvOne(cs)
			assert.Error(t, err)
			assert.Zero(t, r.ReplayBytes())
		})
	}
}
