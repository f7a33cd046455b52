package retrybudget

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Idempotency says whether a method may be applied twice without harm.
type Idempotency uint8

// What is known of a method.
const (
	// IdempotencyUnknown: nobody said. Only failures that usually mean "not
	// processed" are retried.
	IdempotencyUnknown Idempotency = iota
	// Idempotent: applying the call twice is the same as applying it once, so
	// timeouts and ABORTED can be retried too.
	Idempotent
	// NonIdempotent: the call must not be applied twice. It is retried only
	// when the server said that it refused before working.
	NonIdempotent
)

// String returns the level's name.
func (i Idempotency) String() string {
	switch i {
	case IdempotencyUnknown:
		return "unknown"
	case Idempotent:
		return "idempotent"
	case NonIdempotent:
		return "non-idempotent"
	default:
		return fmt.Sprintf("Idempotency(%d)", uint8(i))
	}
}

func (i Idempotency) validate(field string) error {
	if i > NonIdempotent {
		return fmt.Errorf("retrybudget: %s %d is not a known level", field, uint8(i))
	}
	return nil
}

// declaredIdempotent reports whether the method's descriptor, if the program
// has it, carries an idempotency_level that makes the method idempotent.
func declaredIdempotent(method string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	m, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return false
	}
	opts, ok := m.Options().(*descriptorpb.MethodOptions)
	if !ok {
		return false
	}
	switch opts.GetIdempotencyLevel() {
	case descriptorpb.MethodOptions_NO_SIDE_EFFECTS, descriptorpb.MethodOptions_IDEMPOTENT:
		return true
	default:
		return false
	}
}

// newIdempotencyKey returns 128 random bits as 32 hexadecimal digits. The
// generator is seeded by the operating system, so that processes started
// together do not make the same keys.
func newIdempotencyKey() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	return hex.EncodeToString(b[:])
}
