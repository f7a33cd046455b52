package retrybudget

import (
	"iter"
	"reflect"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The limits of what streams keep for replay.
const (
	defaultReplayPerCall = 256 << 10 // grpc-go's own for its retries
	defaultReplayTotal   = 16 << 20
)

// messageType is what a message can be made of again.
type messageType struct {
	proto protoreflect.MessageType // for protobuf messages
	other reflect.Type             // for all others, behind the pointer
}

// typeOf returns the type of m, and false when no message can be made of it.
func typeOf(m any) (messageType, bool) {
	if _, ok := m.(*grpc.PreparedMsg); ok {
		return messageType{}, false // encoded for one attempt
	}
	if p, ok := m.(protoreflect.ProtoMessage); ok {
		return messageType{proto: p.ProtoReflect().Type()}, true
	}
	if t := reflect.TypeOf(m); t != nil && t.Kind() == reflect.Pointer {
		return messageType{other: t.Elem()}, true
	}
	return messageType{}, false
}

// isComparable reports whether types of this kind can be compared; those that
// generated code and dynamicpb have can.
func (t messageType) isComparable() bool {
	return t.proto == nil || reflect.TypeOf(t.proto).Comparable()
}

func (t messageType) make() any {
	if t.proto != nil {
		return t.proto.New().Interface()
	}
	return reflect.New(t.other).Interface()
}

// How messages are kept.
const (
	// frameHead is the kind of a message and, if it is small, its length.
	frameHead = 2
	// smallMessage is the longest whose length is one byte.
	smallMessage = 1<<8 - 1
	// largeKind marks the kind of a message that is longer.
	largeKind = 1 << 7
	// A block has room for many small messages; the first one's for that alone,
	// as most streams have one request.
	minBlock, maxBlock = 64, 4 << 10
	// sliceBytes is what a block or a large message takes beside its bytes.
	sliceBytes = 24
)

// sentMessage is a message that the application sent, as bytes: the application
// may reuse the message, and often does, once SendMsg returned.
type sentMessage struct {
	kind  messageType
	frame []byte // room for the head, and the bytes
}

// encode encodes m for replay, into scratch if there is room. It reports false
// when m cannot be encoded, or no message of its type be made.
func (c codec) encode(m any, scratch []byte) (sentMessage, bool) {
	kind, ok := typeOf(m)
	if !ok || c.CodecV2 == nil {
		return sentMessage{}, false
	}
	p, isProto := m.(protoreflect.ProtoMessage)
	if isProto && c.standard { // what the codec does, without its pooled buffers
		frame, n := scratch, frameHead+protobuf.Size(p)
		if n >= cap(scratch) {
			frame = make([]byte, 0, n)
		}
		frame, err := protobuf.MarshalOptions{UseCachedSize: true}.MarshalAppend(frame[:frameHead], p)
		return sentMessage{kind, frame}, err == nil
	}
	data, err := c.Marshal(m)
	if err != nil {
		return sentMessage{}, false
	}
	defer data.Free()
	frame := make([]byte, frameHead+data.Len())
	data.CopyTo(frame[frameHead:])
	return sentMessage{kind, frame}, true
}

// decode returns a new message with a kept one's content. Other codecs than the
// standard one may put the bytes themselves into the message, where an interceptor
// further in can change them, so they get a copy.
func (c codec) decode(kind messageType, bytes []byte) (any, error) {
	m := kind.make()
	if !c.standard {
		bytes = slices.Clone(bytes)
	}
	return m, c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes)}, m)
}

// newScratch returns room for a small message. A frame in it never fills it,
// which tells it from one of its own.
func newScratch() []byte { return make([]byte, 0, frameHead+smallMessage+1) }

// sentLog is the messages that a stream keeps for replay, in the order they were
// sent. A small one costs no allocation and two bytes beside its own. A copy of a
// log does not change when more is added to the log.
type sentLog struct {
	kind  messageType   // of the first message, and usually of all
	kinds []messageType // the others
	full  [][]byte      // blocks: small messages' frames, and the first byte of large ones'
	block []byte        // the one that is being filled
	large [][]byte      // the large messages' frames
	size  int           // of all that, as the limits count it
}

// add keeps m. It reports false when there is no room.
func (l *sentLog) add(m sentMessage, r replayRoom) bool {
	kind, ok := l.kindOf(m.kind)
	if !ok {
		return false
	}
	own, part, n := 0, m.frame, len(m.frame)-frameHead
	if n > smallMessage {
		own, part = cap(m.frame)+sliceBytes, m.frame[:1]
		kind |= largeKind
	}
	m.frame[0], m.frame[1] = kind, byte(n)
	room, ok := l.makeRoom(len(part), own, r)
	switch {
	case !ok:
		return false
	case room > 0 && l.block == nil && len(part) == cap(m.frame):
		l.block = m.frame
		return true
	case room > 0:
		if l.block != nil {
			l.full = append(l.full, l.block)
		}
		l.block = make([]byte, 0, room)
	}
	l.block = append(l.block, part...)
	if own > 0 {
		l.large = append(l.large, m.frame)
	}
	return true
}

// makeRoom accounts for part bytes in a block and for own bytes beside it, and
// returns the size of the block to be made, 0 if they fit into the last one.
func (l *sentLog) makeRoom(part, own int, r replayRoom) (int, bool) {
	if own > 0 && own+l.size > r.call {
		return 0, false
	}
	if cap(l.block)-len(l.block) >= part {
		return 0, l.reserve(own, r)
	}
	room := part
	if l.block != nil {
		room = max(part, min(max(minBlock, 2*cap(l.block)), maxBlock))
	}
	room = min(room, r.call-l.size-own-sliceBytes)
	switch {
	case room < part:
		return 0, false
	case l.reserve(own+sliceBytes+room, r):
		return room, true
	default:
		return part, l.reserve(own+sliceBytes+part, r)
	}
}

func (l *sentLog) reserve(n int, r replayRoom) bool {
	if n > 0 && !r.reserve(n) {
		return false
	}
	l.size += n
	return true
}

// kindOf returns the number of t among the kinds of messages. It reports false
// when there are too many.
func (l *sentLog) kindOf(t messageType) (byte, bool) {
	if l.kind == t {
		return 0, true
	}
	if !t.isComparable() {
		return 0, false
	}
	if l.kind == (messageType{}) {
		l.kind = t
		return 0, true
	}
	i := slices.Index(l.kinds, t)
	if i < 0 {
		if i = len(l.kinds); 1+i == largeKind {
			return 0, false
		}
		l.kinds = append(l.kinds, t)
	}
	return byte(1 + i), true
}

// empty reports whether nothing is kept.
func (l *sentLog) empty() bool { return l.block == nil }

// all iterates over the messages: kind and bytes.
func (l *sentLog) all() iter.Seq2[messageType, []byte] {
	return func(yield func(messageType, []byte) bool) {
		large := l.large
		for i := range len(l.full) + 1 {
			block := l.block
			if i < len(l.full) {
				block = l.full[i]
			}
			for len(block) > 0 {
				kind, frame := block[0], block
				if kind&largeKind != 0 {
					frame, large, block = large[0], large[1:], block[1:]
				} else {
					n := frameHead + int(block[1])
					frame, block = block[:n:n], block[n:]
				}
				if !yield(l.typeOf(kind&^largeKind), frame[frameHead:]) {
					return
				}
			}
		}
	}
}

func (l *sentLog) typeOf(kind byte) messageType {
	if kind == 0 {
		return l.kind
	}
	return l.kinds[kind-1]
}

// replayRoom is what a stream may take for replay.
type replayRoom struct {
	call  int           // bytes of the stream's own
	total int64         // bytes of all streams together
	taken *atomic.Int64 // by all streams
}

func (r *Retrier) replayRoom(cfg *config, opts []grpc.CallOption) replayRoom {
	room := replayRoom{call: cfg.replayCall, total: int64(cfg.replayTotal), taken: &r.replayed}
	for _, o := range opts {
		if m, ok := o.(grpc.MaxRetryRPCBufferSizeCallOption); ok {
			room.call = m.MaxRetryRPCBufferSize
		}
	}
	return room
}

func (r replayRoom) reserve(n int) bool {
	for {
		taken := r.taken.Load()
		if taken+int64(n) > r.total {
			return false
		}
		if r.taken.CompareAndSwap(taken, taken+int64(n)) {
			return true
		}
	}
}

// ReplayBytes returns the bytes that streams hold for replay now. It is 0 when
// no stream is open that could still be retried. What a stream is sending again
// while its first message arrives is not counted any more.
func (r *Retrier) ReplayBytes() int64 { return r.replayed.Load() }
