package retrybudget

import (
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

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
