package redis // what is tested is not exported: how an answer is read

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testSettings(tb testing.TB) *settings {
	tb.Helper()
	s, err := Config{}.settings()
	require.NoError(tb, err)
	return &s
}

func TestParse(t *testing.T) {
	t.Parallel()
	s := testSettings(t)
	r := &request{epoch: "e", version: 5, want: 4000}
	ok := func(list ...any) any { return list }
	for _, test := range []struct {
		value any
		want  string // part of the error; "" for none
	}{
		{ok("ok", "e", int64(6), int64(20_000), int64(4000), int64(1)), ""},
		{ok("made", "f", int64(1), int64(0), int64(0), int64(1)), ""},
		{ok("lost", "f", int64(1), int64(0), int64(0), int64(1)), ""},
		{ok("late", "", int64(0), int64(0), int64(0), int64(1)), ""},
		{nil, "<nil> of length 0"},
		{"OK", "string of length 0"},
		{ok("ok", "e", int64(6), int64(0), int64(0)), "of length 5"},
		{ok("fine", "e", int64(6), int64(0), int64(0), int64(1)), `begins with "fine"`},
		{ok("ok", int64(6), int64(6), int64(0), int64(0), int64(1)), `begins with "ok"`},
		{ok("ok", "e", "6", int64(0), int64(0), int64(1)), "element 3 is a string"},
		{ok("ok", "e", int64(6), int64(0), int64(0), nil), "element 6 is a <nil>"},
		{ok("ok", "e", int64(6), int64(20_001), int64(0), int64(1)), "the level is 20001"},
		{ok("ok", "e", int64(6), int64(-1), int64(0), int64(1)), "the level is -1"},
		{ok("ok", "e", int64(6), int64(0), int64(4001), int64(1)), "4001 granted where 4000 were asked for"},
		{ok("ok", "e", int64(6), int64(0), int64(-1), int64(1)), "-1 granted"},
		{ok("ok", "e", int64(5), int64(0), int64(0), int64(1)), "the version is 5 after 5"},
		{ok("ok", "f", int64(0), int64(0), int64(0), int64(1)), "the version is 0 after 5"},
		{ok("ok", "e", int64(1<<53+1), int64(0), int64(0), int64(1)), "the version is 9007199254740993 after 5"},
		{ok("ok", "", int64(6), int64(0), int64(0), int64(1)), `the epoch is ""`},
		{ok("ok", "?", int64(6), int64(0), int64(0), int64(1)), `the epoch is "?"`},
		{ok("ok", "e", int64(6), int64(0), int64(0), int64(0)), "the time is 0"},
		{ok("late", "e", int64(0), int64(0), int64(0), int64(1)), "late, but with a bucket"},
		{ok("late", "", int64(0), int64(0), int64(1000), int64(1)), "late, but with a bucket"},
	} {
		_, err := parse(test.value, r, s)
		if test.want == "" {
			assert.NoError(t, err, "%v", test.value)
		} else {
			assert.ErrorContains(t, err, test.want, "%v", test.value)
		}
	}
}

// Whatever a server answers: what is believed makes no more tokens than were
// asked for. Each bit of damage puts something else in the place of an element,
// and length cuts the list off.
func FuzzParse(f *testing.F) {
	f.Add("ok", "e", int64(6), int64(20_000), int64(4000), int64(1_700_000_000_000), byte(0), byte(6))
	f.Add("made", "f", int64(1), int64(0), int64(0), int64(1), byte(0), byte(6))
	f.Add("late", "", int64(0), int64(0), int64(0), int64(1), byte(0), byte(6))
	f.Add("lost", "e", int64(6), int64(-1), int64(4001), int64(-1), byte(0x11), byte(6))
	f.Add("ok", "e", int64(6), int64(0), int64(0), int64(1), byte(0), byte(5))
	s := testSettings(f)
	f.Fuzz(func(t *testing.T, word, epoch string, version, level, grant, now int64, damage, length byte) {
		list := []any{word, epoch, version, level, grant, now}
		for i := range list {
			if damage>>i&1 == 1 {
				list[i] = []any{nil, int64(7), "word", []any{}}[(i+int(damage>>6))%4]
			}
		}
		r := &request{epoch: "e", version: 5, want: 4000}
		a, err := parse(list[:min(int(length), len(list))], r, s)
		if err != nil {
			assert.Zero(t, a)
			return
		}
		assert.GreaterOrEqual(t, length, byte(6))
		assert.GreaterOrEqual(t, a.grant, int64(0))
		assert.LessOrEqual(t, a.grant, r.want)
		assert.GreaterOrEqual(t, a.level, int64(0))
		assert.LessOrEqual(t, a.level, s.capacity)
		assert.Positive(t, a.now)
		if a.verdict != late {
			assert.NotEmpty(t, a.epoch)
			assert.Positive(t, a.version)
		}
	})
}

// Names with any bytes: different ones have different keys, and what Redis takes
// for the hash tag is the whole of both names.
func FuzzKeyOf(f *testing.F) {
	f.Add("p", "a", "b", "p", "a|b", "")
	f.Add("p", "{", "}", "p", "}", "{")
	f.Add("", "", "", "%", "%25", "\x00\xff")
	f.Fuzz(func(t *testing.T, p1, t1, m1, p2, t2, m2 string) {
		k1, k2 := keyOf(p1, t1, m1), keyOf(p2, t2, m2)
		assert.Equal(t, p1 == p2 && t1 == t2 && m1 == m2, k1 == k2, "%q %q", k1, k2)
		assert.Equal(t, t1 == t2 && m1 == m2, tagOf(k1) == tagOf(k2), "who shares a name shares a slot")
	})
}

// tagOf is what Redis hashes of a key: what is between its first { and the next }.
func tagOf(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}
