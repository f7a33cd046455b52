package retrybudget

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
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

// newIdempotencyKey returns 128 random bits as 32 hexadecimal digits. The
// generator is seeded by the operating system, so that processes started
// together do not make the same keys.
func newIdempotencyKey() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	return hex.EncodeToString(b[:])
}
