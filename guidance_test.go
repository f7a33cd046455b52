package retrybudget //nolint:testpackage // what the parsers make of hostile answers shows only from inside

import (
	"math"
	"math/big"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestParsePushback(t *testing.T) {
	t.Parallel()
	const absent, veto = -1, -2 // otherwise milliseconds
	for _, tt := range []struct {
		name   string
		values []string
		want   int64
	}{
		{"absent", nil, absent},
		{"no values", []string{}, absent},
		{"zero", []string{"0"}, 0},
		{"one", []string{"1"}, 1},
		{"some", []string{"50"}, 50},
		{"largest", []string{"2147483647"}, math.MaxInt32},
		{"one too large", []string{"2147483648"}, veto},
		{"would overflow a duration", []string{"9223372036855"}, veto},
		{"would overflow to a small one", []string{"18446744073709"}, veto},
		{"longer than any integer", []string{"99999999999999999999999999"}, veto},
		{"minus one", []string{"-1"}, veto},
		{"smallest", []string{"-2147483648"}, veto},
		{"below the smallest", []string{"-2147483649"}, veto},
		{"minus zero", []string{"-0"}, veto},
		{"minus alone", []string{"-"}, veto},
		{"empty", []string{""}, veto},
		{"word", []string{"abc"}, veto},
		{"fraction", []string{"5.0"}, veto},
		{"exponent", []string{"1e3"}, veto},
		{"hexadecimal", []string{"0x10"}, veto},
		{"underscore", []string{"1_000"}, veto},
		{"leading space", []string{" 5"}, veto},
		{"trailing space", []string{"5 "}, veto},
		{"newline", []string{"5\n"}, veto},
		{"plus sign", []string{"+5"}, veto},
		{"leading zeros", []string{"007"}, veto},
		{"many zeros", []string{"00"}, veto},
		{"digits outside ASCII", []string{"٥"}, veto},
		{"unit", []string{"10ms"}, veto},
		{"two values", []string{"10", "20"}, veto},
		{"twice the same", []string{"10", "10"}, veto},
		{"list in one value", []string{"10,20"}, veto},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			delay, ok, vetoed := parsePushback(tt.values)
			assert.Equal(t, tt.want >= 0, ok)
			assert.Equal(t, tt.want == veto, vetoed)
			assert.Equal(t, time.Duration(max(tt.want, 0))*time.Millisecond, delay)
		})
	}
}

// FuzzParsePushback compares the parser with the wording of gRFC A6, told as a
// pattern and a range.
func FuzzParsePushback(f *testing.F) {
	for _, seed := range []string{"", "0", "-0", "-1", "7", "007", "+5", " 5", "5.0", "abc", "2147483647", "2147483648", "-2147483648", "18446744073709"} {
		f.Add(seed, "", false)
		f.Add(seed, seed, true)
	}
	decimal := regexp.MustCompile(`\A(0|-?[1-9][0-9]*)\z`)
	f.Fuzz(func(t *testing.T, first, second string, twice bool) {
		values := []string{first}
		if twice {
			values = append(values, second)
		}
		want := big.NewInt(-1)
		if !twice && decimal.MatchString(first) {
			want.SetString(first, 10)
		}
		obeyed := want.Sign() >= 0 && want.Cmp(big.NewInt(math.MaxInt32)) <= 0

		delay, ok, veto := parsePushback(values)

		require.Equal(t, obeyed, ok)
		require.Equal(t, !obeyed, veto)
		if obeyed {
			require.Equal(t, want.Int64(), delay.Milliseconds())
			require.Zero(t, delay%time.Millisecond)
		} else {
			require.Zero(t, delay)
		}
	})
}

// detail packs a message as a status detail.
func detail(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	require.NoError(t, err)
	return a
}

func retryInfo(seconds int64, nanos int32) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: seconds, Nanos: nanos}}
}

func withDetails(details ...*anypb.Any) *status.Status {
	return status.FromProto(&spb.Status{Code: int32(codes.Unavailable), Message: "later", Details: details})
}

func TestRetryInfoDelay(t *testing.T) {
	t.Parallel()
	broken := detail(t, retryInfo(1, 0))
	broken.Value = []byte{0xff, 0xff, 0xff}
	for _, tt := range []struct {
		name    string
		details []*anypb.Any
		want    time.Duration
	}{
		{"no details", nil, 0},
		{"another detail", []*anypb.Any{detail(t, &errdetails.ErrorInfo{Reason: "x"})}, 0},
		{"milliseconds", []*anypb.Any{detail(t, retryInfo(0, 300_000_000))}, 300 * time.Millisecond},
		{"beside another", []*anypb.Any{detail(t, &errdetails.ErrorInfo{}), detail(t, retryInfo(2, 5))}, 2*time.Second + 5},
		{"zero", []*anypb.Any{detail(t, retryInfo(0, 0))}, 0},
		{"negative", []*anypb.Any{detail(t, retryInfo(-5, 0))}, 0},
		{"negative nanoseconds", []*anypb.Any{detail(t, retryInfo(0, -1))}, 0},
		{"no delay in it", []*anypb.Any{detail(t, &errdetails.RetryInfo{})}, 0},
		{"mixed signs", []*anypb.Any{detail(t, retryInfo(5, -1))}, 0},
		{"too many nanoseconds", []*anypb.Any{detail(t, retryInfo(1, 1_000_000_000))}, 0},
		{"more than ten thousand years", []*anypb.Any{detail(t, retryInfo(math.MaxInt64, 0))}, 0},
		{"longer than a Go duration", []*anypb.Any{detail(t, retryInfo(300_000_000_000, 0))}, math.MaxInt64},
		{"the longer of two", []*anypb.Any{detail(t, retryInfo(1, 0)), detail(t, retryInfo(3, 0)), detail(t, retryInfo(2, 0))}, 3 * time.Second},
		{"a bad one beside a good one", []*anypb.Any{detail(t, retryInfo(-1, 0)), broken, detail(t, retryInfo(1, 0))}, time.Second},
		{"unreadable", []*anypb.Any{broken}, 0},
		{"unknown type", []*anypb.Any{{TypeUrl: "type.example/none.Such", Value: []byte{8, 1}}}, 0},
		{"no type", []*anypb.Any{{}}, 0},
		{"nil detail", []*anypb.Any{nil}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, retryInfoDelay(withDetails(tt.details...)))
		})
	}
}

// FuzzRetryInfo feeds random bytes as status details, alone and beside a
// readable RetryInfo.
func FuzzRetryInfo(f *testing.F) {
	good, err := proto.Marshal(retryInfo(1, 5))
	require.NoError(f, err)
	const url = "type.googleapis.com/google.rpc.RetryInfo"
	f.Add(url, good, int64(2), int32(0))
	f.Add(url, []byte{0xff}, int64(-1), int32(-1))
	f.Add("", []byte{}, int64(math.MaxInt64), int32(math.MaxInt32))
	f.Add("x", good, int64(300_000_000_000), int32(999_999_999))
	f.Fuzz(func(t *testing.T, typeURL string, value []byte, seconds int64, nanos int32) {
		noise := &anypb.Any{TypeUrl: typeURL, Value: value}
		// A well-formed duration as google.protobuf.Duration defines it, in
		// nanoseconds, cut at what a Go duration holds.
		stated := new(big.Int)
		if seconds >= 0 && nanos >= 0 && nanos <= 999_999_999 && seconds <= 315_576_000_000 {
			stated.Mul(big.NewInt(seconds), big.NewInt(1e9)).Add(stated, big.NewInt(int64(nanos)))
			if !stated.IsInt64() {
				stated.SetInt64(math.MaxInt64)
			}
		}

		alone := readGuidance(nil, withDetails(noise))
		require.GreaterOrEqual(t, alone.retryInfo, time.Duration(0))
		require.Equal(t, alone.retryInfo > 0, alone.toldWhen())

		exactly := retryInfoDelay(withDetails(detail(t, retryInfo(seconds, nanos))))
		require.Equal(t, stated.Int64(), int64(exactly))

		both := retryInfoDelay(withDetails(noise, detail(t, retryInfo(seconds, nanos))))
		require.Equal(t, max(alone.retryInfo, exactly), both)

		wait := jitterUp(both)
		require.GreaterOrEqual(t, wait, both, "never sooner than asked")
		require.LessOrEqual(t, int64(wait-both), int64(both/5))
	})
}

func TestReadGuidance_pushbackWinsOverRetryInfo(t *testing.T) {
	t.Parallel()
	st := withDetails(detail(t, retryInfo(3, 0)))
	for _, tt := range []struct {
		name     string
		pushback []string
		toldWhen bool
		delay    time.Duration
		veto     bool
	}{
		{"absent", nil, true, 3 * time.Second, false},
		{"shorter", []string{"10"}, true, 10 * time.Millisecond, false},
		{"zero", []string{"0"}, true, 0, false},
		{"longer", []string{"5000"}, true, 5 * time.Second, false},
		{"veto", []string{"-1"}, true, 3 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := readGuidance(metadata.MD{"grpc-retry-pushback-ms": tt.pushback}, st)
			assert.Equal(t, tt.toldWhen, g.toldWhen())
			assert.Equal(t, tt.delay, g.serverDelay())
			assert.Equal(t, tt.veto, g.veto)
			assert.False(t, g.veto && g.pushback)
		})
	}
}

func TestReadGuidance_exhausted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		values []string
		want   bool
	}{
		{"absent", nil, false},
		{"set", []string{"1"}, true},
		{"zero", []string{"0"}, false},
		{"empty", []string{""}, false},
		{"word", []string{"true"}, false},
		{"space", []string{"1 "}, false},
		{"two", []string{"2"}, false},
		{"set by two on the way", []string{"1", "1"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := readGuidance(metadata.MD{"retrybudget-exhausted": tt.values}, withDetails())
			assert.Equal(t, guidance{exhausted: tt.want}, g, "the hint says nothing else")
		})
	}
}
