package serviceconfig

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrybudget/retrybudget/internal/spelling"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// integer returns a number without decimals from least to most.
func (r *reader) integer(v *value, least, most uint32) uint32 {
	if !r.is(v, isNumber) {
		return least
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		r.fail(v, "%s is not an integer", v.text)
		return least
	case err != nil || n < int64(least) || n > int64(most):
		r.fail(v, "%s is not in %d..%d", v.text, least, most)
		return least
	}
	return uint32(n)
}

// number returns a number from least to most.
func (r *reader) number(v *value, least, most float64) float64 {
	if !r.is(v, isNumber) {
		return least
	}
	f, err := strconv.ParseFloat(v.text, 64)
	if err != nil || f < least || f > most {
		r.fail(v, "%s is not in %v..%.0f", v.text, least, most)
		return least
	}
	return f
}

// positive returns a duration of more than zero, nil for none.
func (r *reader) positive(v *value) *durationpb.Duration {
	if !r.is(v, isString) {
		return nil
	}
	d := new(durationpb.Duration)
	if protojson.Unmarshal([]byte(strconv.Quote(v.text)), d) != nil {
		r.fail(v, `%q is not a duration in seconds, such as "0.1s"`, v.text)
		return nil
	}
	switch {
	case d.GetSeconds() < 0 || d.GetNanos() < 0 || d.GetSeconds() == 0 && d.GetNanos() == 0:
		r.fail(v, "%q is not positive", v.text)
		return nil
	case d.GetSeconds() > math.MaxInt64/1_000_000_000:
		r.fail(v, "%q is longer than 292 years", v.text)
		return nil
	}
	return d
}

// codes returns a list of codes, given by name or number, each once.
func (r *reader) codes(v *value) []retrybudgetv1.Code {
	if !r.is(v, isArray) {
		return nil
	}
	if len(v.items) == 0 {
		r.fail(v, "is empty")
	}
	var all []retrybudgetv1.Code
	for _, item := range v.items {
		if code := r.code(item); code != 0 && !slices.Contains(all, code) {
			all = append(all, code)
		}
	}
	return all
}

// codeNames returns the names of the codes that may be retried.
func codeNames() (all []string) {
	for n := int32(1); n <= 16; n++ {
		all = append(all, strings.TrimPrefix(retrybudgetv1.Code_name[n], "CODE_"))
	}
	return all
}

func (r *reader) code(v *value) retrybudgetv1.Code {
	name := strings.ToUpper(v.text)
	meant := spelling.Nearest(name, codeNames())
	switch code, known := retrybudgetv1.Code_value["CODE_"+name]; {
	case v.kind == isString && name == "OK", v.kind == isNumber && v.text == "0":
		r.fail(v, "is OK, and a call that succeeded is not retried")
	case v.kind == isString && known && code != 0:
		return retrybudgetv1.Code(code)
	case v.kind == isNumber:
		return retrybudgetv1.Code(r.integer(v, 1, 16))
	case v.kind == isString && meant != "":
		r.fail(v, "%q is not the name of a gRPC code: did you mean %s?", v.text, meant)
	case v.kind == isString:
		r.fail(v, "%q is not the name of a gRPC code", v.text)
	default:
		r.fail(v, "is %s, not the name or number of a code", v.kind)
	}
	return 0
}
