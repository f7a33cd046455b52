package redis

import (
	_ "embed"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed exchange.lua
var script string

var scriptHash = goredis.NewScript(script).Hash()

// request is what a process tells Redis about a bucket, and asks of it. Tokens
// are in thousandths.
type request struct {
	key     string
	epoch   string // of the bucket last seen; "" for none, forgotten for one long ago
	version int64  // the highest one seen of that bucket
	// deadline is the server's time, in milliseconds, after which it must do
	// nothing any more; 0 for none.
	deadline int64
	credit   int64 // earned by successes
	back     int64 // given back; no longer in hand
	held     int64 // in hand
	want     int64
}

// forgotten stands for the epoch of a bucket that was seen so long ago that
// nothing follows from its not being there any more, but that it was.
const forgotten = "?"

// args are those of the script.
func (r *request) args(id, fresh string, s *settings) []any {
	return []any{
		id, r.epoch, r.version, fresh,
		s.capacity, s.initial,
		s.TTL.Milliseconds(), s.hold.Milliseconds(), r.deadline,
		r.credit, r.back, r.held, r.want,
	}
}

// verdict is what Redis made of a request.
type verdict uint8

const (
	accepted verdict = iota
	made             // the bucket was new
	lost             // Redis had lost the bucket, or gone back to an older state of it
	late             // the request came after its deadline and did nothing
)

var verdicts = map[string]verdict{"ok": accepted, "made": made, "lost": lost, "late": late}

// answer is what the script returns.
type answer struct {
	verdict verdict
	epoch   string
	version int64
	level   int64 // of the pool
	grant   int64
	now     int64 // the server's time in milliseconds
}

const (
	maxEpoch   = 64      // bytes
	maxVersion = 1 << 53 // up to which the script's numbers are whole
)

// parse reads the script's answer to r. It believes nothing that the script
// could not have said.
func parse(value any, r *request, s *settings) (answer, error) {
	a, err := read(value)
	if err != nil {
		return answer{}, err
	}
	switch {
	case a.now <= 0:
		err = fmt.Errorf("the time is %d", a.now)
	case a.verdict == late && (a.epoch != "" || a.version != 0 || a.level != 0 || a.grant != 0):
		err = errors.New("late, but with a bucket")
	case a.verdict == late:
	case a.epoch == "" || a.epoch == forgotten || len(a.epoch) > maxEpoch:
		err = fmt.Errorf("the epoch is %.80q", a.epoch)
	case a.version < 1 || a.version > maxVersion || a.epoch == r.epoch && a.version <= r.version:
		err = fmt.Errorf("the version is %d after %d", a.version, r.version)
	case a.level < 0 || a.level > s.capacity:
		err = fmt.Errorf("the level is %d", a.level)
	case a.grant < 0 || a.grant > r.want:
		err = fmt.Errorf("%d granted where %d were asked for", a.grant, r.want)
	}
	if err != nil {
		return answer{}, fmt.Errorf("retrybudget: redis: an answer makes no sense: %w", err)
	}
	return a, nil
}

// read takes the answer apart.
func read(value any) (a answer, err error) {
	list, ok := value.([]any)
	if !ok || len(list) != 6 {
		return a, fmt.Errorf("retrybudget: redis: an answer is not the script's: %T of length %d", value, len(list))
	}
	word, ok1 := list[0].(string)
	epoch, ok2 := list[1].(string)
	verdict, ok3 := verdicts[word]
	if !ok1 || !ok2 || !ok3 {
		return a, fmt.Errorf("retrybudget: redis: an answer is not the script's: it begins with %.80q", fmt.Sprint(list[0]))
	}
	var numbers [4]int64
	for i, v := range list[2:] {
		if numbers[i], ok = v.(int64); !ok {
			return a, fmt.Errorf("retrybudget: redis: an answer is not the script's: element %d is a %T", i+3, v)
		}
	}
	return answer{verdict, epoch, numbers[0], numbers[1], numbers[2], numbers[3]}, nil
}
