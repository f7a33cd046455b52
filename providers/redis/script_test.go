package redis_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/retrybudget/retrybudget/providers/redis"
)

// The script under a clock that the test sets: on a real server, whose own clock
// it cannot.
var clockedScript = strings.Replace(redis.Script, "redis.call('TIME')", "{0, tonumber(redis.call('GET', 'clock')) * 1000}", 1)

// Random requests of random processes under a clock that jumps both ways: the
// answers and what is kept are those of the model.
func TestScript_doesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, redis.Script, clockedScript, "the script asks for the time in another way")
	client := startServer(t).client()
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 0))
		clock := int64(1_000_000)
		m := &model{clock: func() int64 { return clock }, buckets: make(map[string]*bucket)}
		key := fmt.Sprintf("bucket %d", seed)
		var restore func()
		var dump string
		for step := range 150 {
			clock += random.Int64N(700)
			switch random.IntN(40) {
			case 0:
				clock += 10_000
			case 1:
				clock -= 10_000
			case 2:
				m.wipe()
				require.NoError(t, client.Del(t.Context(), key).Err())
			case 3:
				if m.buckets[key] != nil {
					restore, dump = m.snapshot(), client.Dump(t.Context(), key).Val()
				}
			case 4:
				if restore != nil {
					restore()
					require.NoError(t, client.RestoreReplace(t.Context(), key, 0, dump).Err())
				}
			default:
			}
			c := randomCall(random, key, clock, m)
			require.NoError(t, client.Set(t.Context(), "clock", clock, 0).Err())
			got, err := client.Eval(t.Context(), clockedScript, []string{key}, args(c)...).Result()
			require.NoError(t, err)
			require.Equal(t, any(m.do(c)), got, "seed %d, step %d: %+v", seed, step, c)
			assertKept(t, m.buckets[key], client.HGetAll(t.Context(), key).Val())
			if t.Failed() {
				t.Fatalf("seed %d, step %d: %+v", seed, step, c)
			}
		}
	}
}

func randomCall(random *rand.Rand, key string, clock int64, m *model) call {
	c := call{
		key: key, id: fmt.Sprint("process ", random.IntN(4)), fresh: fmt.Sprint("epoch ", random.Uint64()),
		capacity: 20_000, initial: random.Int64N(20) * 1000, ttl: 1_000_000_000, hold: 5000,
		credit: random.Int64N(3000), back: random.Int64N(5) * 1000 * random.Int64N(2),
		held: random.Int64N(5000), wanted: random.Int64N(5) * 1000,
	}
	if random.IntN(2) == 0 {
		c.deadline = clock + 2000 - random.Int64N(2200)
	}
	c.epoch = []string{"", "?", "another"}[random.IntN(3)]
	if b := m.buckets[key]; b != nil && random.IntN(4) > 0 {
		c.epoch, c.version = b.epoch, max(0, b.version+random.Int64N(4)-random.Int64N(2)*3)
	}
	return c
}

func args(c call) []any {
	return []any{c.id, c.epoch, c.version, c.fresh, c.capacity, c.initial, c.ttl, c.hold, c.deadline, c.credit, c.back, c.held, c.wanted}
}

func assertKept(t *testing.T, want *bucket, got map[string]string) {
	t.Helper()
	if want == nil {
		assert.Empty(t, got)
		return
	}
	kept := map[string]string{
		"epoch": want.epoch, "version": fmt.Sprint(want.version), "level": fmt.Sprint(want.level),
		"out": fmt.Sprint(want.out), "sweep": fmt.Sprint(want.sweep),
	}
	for id, h := range want.holders {
		kept["h:"+id] = fmt.Sprintf("%d:%d", h.tokens, h.till)
	}
	assert.Equal(t, kept, got)
}

// Somebody else wrote to the key: the bucket begins again, empty.
func TestScript_damagedBucketIsEmpty(t *testing.T) {
	t.Parallel()
	client := startServer(t).client()
	for _, fields := range [][]any{
		{"epoch", "e"},
		{"epoch", "e", "version", "1", "level", "many", "out", "0", "sweep", "1"},
		{"epoch", "e", "version", "1e300", "level", "9000", "out", "0", "sweep", "1"},
		{"epoch", "e", "version", "nan", "level", "9000", "out", "0", "sweep", "1"},
		{"epoch", "e", "version", "-7", "level", "9000", "out", "0", "sweep", "1"},
	} {
		require.NoError(t, client.Del(t.Context(), "k").Err())
		require.NoError(t, client.HSet(t.Context(), "k", fields...).Err())
		got, err := client.Eval(t.Context(), redis.Script, []string{"k"}, args(call{
			id: "p", fresh: "f", capacity: 20_000, initial: 20_000, ttl: 60_000, hold: 5000, wanted: 4000,
		})...).Slice()
		require.NoError(t, err)
		assert.Equal(t, []any{"lost", "f", int64(1), int64(0), int64(0)}, got[:5], "%v", fields)
	}
}

// Large numbers stay whole: Lua has floating-point numbers only.
func TestScript_largestBucket(t *testing.T) {
	t.Parallel()
	client := startServer(t).client()
	const most = int64(1_000_000_000_000)
	for range 3 {
		c := call{id: "p", fresh: "f", capacity: most, initial: most - 1, ttl: 60_000, hold: 5000, credit: 1}
		got, err := client.Eval(t.Context(), redis.Script, []string{"k"}, args(c)...).Slice()
		require.NoError(t, err)
		assert.Equal(t, most, got[3])
	}
}
