package retrybudget

import (
	"reflect"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The limits of what streams keep for replay.
const (
	defaultReplayPerCall = 256 << 10 // grpc-go's own for its retries
	defaultReplayTotal   = 16 << 20
)

// sentMessage is a message that the application sent, kept as bytes: the
// application may reuse the message, and often does, once SendMsg returned.
type sentMessage struct {
	bytes []byte
	proto protoreflect.MessageType // its type, for protobuf messages
	other reflect.Type             // for all others, behind the pointer
}

// cost is what the message counts for in the limits: its bytes and this record,
// or a stream of empty messages would grow without bound.
func (s sentMessage) cost() int { return len(s.bytes) + int(unsafe.Sizeof(s)) }

// codec is what a call encodes its messages with, in the newer of grpc-go's two
// shapes. standard is true for grpc-go's own for protobuf, which other codecs may
// replace under its name.
type codec struct {
	encoding.CodecV2
	standard bool
}

// standardCodec is the package of grpc-go's own codec.
const standardCodec = "google.golang.org/grpc/encoding/proto"

// codecOf returns the codec that grpc-go will choose for a call with opts; nil
// inside when there is none.
func codecOf(opts []grpc.CallOption) codec {
	subtype := proto.Name
	var forced encoding.CodecV2
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.ForceCodecCallOption:
			forced = oldCodec{o.Codec}
		case grpc.ForceCodecV2CallOption:
			forced = o.CodecV2
		case grpc.CustomCodecCallOption:
			forced = oldCodec{o.Codec}
		case grpc.ContentSubtypeCallOption:
			subtype = o.ContentSubtype
		}
	}
	if forced != nil {
		return codec{CodecV2: forced}
	}
	if c := encoding.GetCodecV2(subtype); c != nil {
		t := reflect.TypeOf(c)
		return codec{c, t.Kind() == reflect.Pointer && t.Elem().PkgPath() == standardCodec}
	}
	if c := encoding.GetCodec(subtype); c != nil {
		return codec{CodecV2: oldCodec{c}}
	}
	return codec{}
}

// bytesCodec is what grpc-go's older codec interfaces have in common.
type bytesCodec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// oldCodec gives an older codec the newer shape.
type oldCodec struct{ bytesCodec }

func (c oldCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, err := c.bytesCodec.Marshal(v)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (c oldCodec) Unmarshal(data mem.BufferSlice, v any) error {
	return c.bytesCodec.Unmarshal(data.Materialize(), v)
}

func (oldCodec) Name() string { return "" }

// keep encodes m for replay. It reports false when m cannot be encoded, or no
// message of its type be made.
func (c codec) keep(m any) (sentMessage, bool) {
	var kept sentMessage
	if _, ok := m.(*grpc.PreparedMsg); ok {
		return kept, false // encoded for one attempt
	}
	if p, ok := m.(protoreflect.ProtoMessage); ok {
		kept.proto = p.ProtoReflect().Type()
	} else if t := reflect.TypeOf(m); t != nil && t.Kind() == reflect.Pointer {
		kept.other = t.Elem()
	} else {
		return kept, false
	}
	var err error
	switch p, ok := m.(protoreflect.ProtoMessage); {
	case c.CodecV2 == nil:
		return kept, false
	case ok && c.standard: // what the codec does, without its pooled buffers
		kept.bytes, err = protobuf.Marshal(p)
	default:
		var data mem.BufferSlice
		if data, err = c.Marshal(m); err == nil {
			kept.bytes = data.Materialize()
			data.Free()
		}
	}
	return kept, err == nil
}

// decode returns a new message with the kept one's content.
func (c codec) decode(s sentMessage) (any, error) {
	var m any
	if s.proto != nil {
		m = s.proto.New().Interface()
	} else {
		m = reflect.New(s.other).Interface()
	}
	return m, c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(s.bytes)}, m)
}

// reserve takes n bytes of what all streams together may keep.
func (r *Retrier) reserve(n int) bool {
	if r.replayed.Add(int64(n)) <= r.replayTotal {
		return true
	}
	r.replayed.Add(-int64(n))
	return false
}

// ReplayBytes returns the bytes that streams hold for replay now. It is 0 when
// no stream is open that could still be retried.
func (r *Retrier) ReplayBytes() int64 { return r.replayed.Load() }
