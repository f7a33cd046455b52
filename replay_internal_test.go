package retrybudget

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The log has no door to the outside, so this test is inside. From there its
// places, sizes and limits are hard to meet one by one.

// loggedMessage is what a log should hold.
type loggedMessage struct {
	kind  messageType
	bytes []byte
}

func requireLog(t *testing.T, want []loggedMessage, l *sentLog) {
	t.Helper()
	i := 0
	for kind, bytes := range l.all() {
		require.Less(t, i, len(want))
		require.Equal(t, want[i].kind, kind, "message %d", i)
		require.Equal(t, string(want[i].bytes), string(bytes), "message %d", i)
		i++
	}
	require.Len(t, want, i)
	require.Equal(t, len(want) == 0, l.empty())
}

// Whatever is sent, the log gives it back in order, and never takes up more than
// the limits allow or than it says.
func TestSentLog_keepsWhatFits(t *testing.T) {
	t.Parallel()
	standard := codecOf(nil)
	require.True(t, standard.standard)
	refused, large, kinds := 0, 0, 0
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test must be repeatable
		limit, total := random.IntN(20_000), random.IntN(40_000)
		r := replayRoom{limit, int64(total), new(atomic.Int64)}
		var l sentLog
		var want []loggedMessage
		var scratch []byte
		copies := map[int]sentLog{}
		for i := range 200 {
			if i > 0 && scratch == nil && random.IntN(2) == 0 {
				scratch = newScratch()
			}
			m := randomMessage(random)
			kept, ok := standard.encode(m, scratch)
			require.True(t, ok)
			before := l.size
			if !l.add(kept, r) {
				refused++
				require.Equal(t, before, l.size, "a refusal takes nothing")
				least := before + frameHead + proto.Size(m)
				if proto.Size(m) > smallMessage {
					least = before + sliceBytes + frameHead + proto.Size(m)
				}
				require.Greater(t, least+sliceBytes+1, min(limit, total), "there was room")
				break
			}
			data, err := proto.Marshal(m)
			require.NoError(t, err)
			want = append(want, loggedMessage{kept.kind, data})
			large += len(data) / (smallMessage + 1)
			if random.IntN(10) == 0 {
				copies[len(want)] = l
			}
			require.LessOrEqual(t, l.size, min(limit, total))
			require.Equal(t, int64(l.size), r.taken.Load())
			require.LessOrEqual(t, taken(&l), l.size)
		}
		requireLog(t, want, &l)
		for n, c := range copies {
			requireLog(t, want[:n], &c)
		}
		kinds += len(l.kinds)
	}
	assert.Positive(t, refused)
	assert.Positive(t, large)
	assert.Positive(t, kinds)
}

// taken returns the bytes that a log takes up.
func taken(l *sentLog) int {
	n := 0
	for _, b := range append(append([][]byte{l.block}, l.full...), l.large...) {
		n += cap(b)
	}
	return n
}

func randomMessage(random *rand.Rand) proto.Message {
	size := random.IntN(40)
	switch random.IntN(20) {
	case 0:
		return &emptypb.Empty{}
	case 1:
		size = 240 + random.IntN(30) // about where small ends
	case 2:
		size = random.IntN(5000)
	case 3:
		return wrapperspb.Bytes(bytes.Repeat([]byte{byte(size)}, size))
	}
	return wrapperspb.String(string(bytes.Repeat([]byte{'a' + byte(random.IntN(26))}, size)))
}

// arrayOf returns a type of its own for each n.
func arrayOf(n int) reflect.Type { return reflect.ArrayOf(n, reflect.TypeFor[byte]()) }

func TestSentLog_tooManyKinds(t *testing.T) {
	t.Parallel()
	r := replayRoom{1 << 20, 1 << 20, new(atomic.Int64)}
	var l sentLog
	add := func(kind messageType) bool {
		return l.add(sentMessage{kind, make([]byte, frameHead)}, r)
	}
	for n := range largeKind {
		require.True(t, add(messageType{other: arrayOf(n)}), "kind %d", n)
	}
	assert.False(t, add(messageType{other: arrayOf(largeKind)}))
	assert.True(t, add(messageType{other: arrayOf(5)}), "those that are known stay so")
	n := 0
	for kind := range l.all() {
		want := n
		if n == largeKind {
			want = 5
		}
		assert.Equal(t, want, kind.other.Len())
		n++
	}
	assert.Equal(t, largeKind+1, n)
}
