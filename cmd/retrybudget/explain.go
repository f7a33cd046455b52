package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

const explainHelp = `
usage: retrybudget explain [flags] /pkg.Service/Method [FILE...]

explain says how calls of one method are retried, and where each setting is from.
The policy is used whole, of the first place that has one:

  1. options in the program's code: WithMethodPolicy, WithPolicy (not seen here)
  2. the configuration FILE: the method, its service, default_policy
  3. the method option (retrybudget.v1.retry), with -descriptors
  4. the resolver's service config, if the configuration has resolver_policies
  5. the library's defaults

Options of a single call then change single fields. FILE may be a configuration, a
gRPC service config, or one of each: the service config beside a configuration is
the resolver's, alone it is read as with serviceconfig.Parse and WithConfig. Which
codes are retried is found out by asking the library itself.
`

const explainExamples = `
exit status: 0 explained; 1 a file has problems; 2 a bad argument or a file that
cannot be read.

examples:
  retrybudget explain /shop.v1.Cart/AddItem retrybudget.yaml
  retrybudget explain -descriptors protos.binpb /shop.v1.Cart/AddItem retrybudget.yaml
  retrybudget explain /shop.v1.Cart/AddItem retrybudget.yaml service-config.json
  retrybudget explain -json /shop.v1.Cart/AddItem retrybudget.yaml
`

// explained is what explain -json prints.
type explained struct {
	Method      string         `json:"method"`
	Policy      string         `json:"policy"`      // where it is stated
	For         string         `json:"for"`         // the methods that the policy is for
	PassedOver  []string       `json:"passed_over"` // policies that would come next
	Settings    []settingValue `json:"settings"`
	Waits       []waitSpan     `json:"waits"` // before each retry, the first ten
	Idempotency string         `json:"idempotency"`
	Retried     []string       `json:"retried"`         // codes
	IfTold      []string       `json:"retried_if_told"` // codes that are retried when the server says when to come back
	Budgets     []allowance    `json:"budgets"`         // a retry pays in all of them
	Notes       []string       `json:"notes"`           // what else decides
}

// settingValue is a field of the policy.
type settingValue struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// waitSpan is the wait before an attempt.
type waitSpan struct {
	Attempt int    `json:"attempt"`
	Least   string `json:"least"`
	Most    string `json:"most"`
}

// mostWaits is how many waits are listed.
const mostWaits = 10

func explain(args []string, in io.Reader, out, errs io.Writer) (int, error) {
	flags := newFlags("explain", explainHelp, explainExamples)
	protos := flags.String("descriptors", "", "`FILE` with a FileDescriptorSet, for idempotency and the method option\n(buf build -o FILE, or protoc --include_imports --descriptor_set_out=FILE)")
	asJSON := flags.Bool("json", false, "print JSON")
	rest, err := flags.parse(args, out)
	if err != nil {
		return exitFine, err
	}
	if len(rest) == 0 {
		return exitUsage, badUsage("no method is given")
	}
	method := rest[0]
	if parts := strings.Split(method, "/"); len(parts) != 3 || parts[0] != "" || parts[1] == "" || parts[2] == "" {
		return exitUsage, badUsage("%q is not a method: write /pkg.Service/Method", method)
	}
	var s search
	if s.protos, err = readDescriptors(*protos); err != nil {
		return exitUsage, err
	}
	if s.protos != nil && !s.protos.knows(method) {
		return exitUsage, badUsage("%s is not in %s", method, s.protos.file)
	}
	code := exitFine
	for _, name := range rest[1:] {
		f, err := readInput(name, in)
		if err != nil {
			return exitUsage, err
		}
		if f.cfg == nil {
			code = printProblems(errs, f)
			continue
		}
		if err := s.add(f); err != nil {
			return exitUsage, err
		}
	}
	if code != exitFine {
		return code, nil
	}
	if s.file == nil { // a service config alone is what the program is configured with
		s.file, s.resolver = s.resolver, nil
	}
	e, err := s.explain(method)
	if err != nil {
		fmt.Fprintf(errs, "%v\n", err)
		return exitProblems, nil
	}
	if *asJSON {
		return exitFine, writeJSON(out, e)
	}
	e.print(out)
	return exitFine, nil
}

func (s *search) add(f *input) error {
	to := &s.file
	if f.kind == serviceConfig {
		to = &s.resolver
	}
	if *to != nil {
		return badUsage("%s and %s are both a %s: only one of each can be in use", (*to).name, f.name, f.kind)
	}
	*to = f
	return nil
}

func (s search) explain(method string) (*explained, error) {
	all := s.candidates(method)
	used := all[0]
	of, _ := s.protos.find(method)
	if s.file == nil {
		s.file = &input{cfg: &retrybudgetv1.Config{}}
	}
	if problems := optionErrors(used.policy); used.file == nil && len(problems) > 0 {
		return nil, fmt.Errorf("%s: error: %s is invalid and fails every call of %s: %s", s.protos.file, optionName, method, strings.Join(problems, "; "))
	}
	e := &explained{Method: method, Policy: used.String(), For: used.covers(), PassedOver: []string{}, Notes: []string{}}
	for _, other := range all[1:] {
		e.PassedOver = append(e.PassedOver, other.String())
	}
	if used.file == nil {
		e.For = method
		if len(all) == 1 {
			e.For = "methods without a policy of their own"
		}
	}
	set := setup{s.file.cfg, used.policy, of}
	answer, err := set.ask()
	if err != nil {
		return nil, err
	}
	attempts, err := set.maxAttempts()
	if err != nil {
		return nil, err
	}
	e.Idempotency = answer.level.String()
	e.Retried, e.IfTold = codeList(answer.always), codeList(answer.guided)
	e.settings(s, used, of, attempts)
	e.waits(used.policy, attempts)
	if e.Budgets, err = s.file.allowances(); err != nil {
		return nil, err
	}
	e.notes(s, used, answer, attempts)
	return e, nil
}

func (e *explained) waits(p *retrybudgetv1.Policy, attempts int) {
	e.Waits = []waitSpan{}
	w := waitsOf(p)
	for retry := 1; retry < attempts && retry <= mostWaits; retry++ {
		least, most := w.span(retry)
		e.Waits = append(e.Waits, waitSpan{retry + 1, least.String(), most.String()})
	}
}

// notes says what else decides whether a call is retried.
func (e *explained) notes(s search, used stated, a answer, attempts int) {
	cfg := s.file.cfg
	switch {
	case cfg.GetMode() == retrybudgetv1.Mode_MODE_OFF:
		e.note("mode is off: nothing is retried, whatever is said above")
	case cfg.GetMode() == retrybudgetv1.Mode_MODE_OBSERVE:
		e.note("mode is observe: the budget refuses nothing, it only reports")
	}
	if attempts == 1 {
		e.note("one attempt: nothing is retried")
	}
	if s.resolver != nil && !cfg.GetResolverPolicies() {
		e.note("%s is not used: the configuration does not set resolver_policies", s.resolver.name)
	}
	if used.file != nil && used.file == s.resolver {
		e.note("the timeout of the resolver's service config is grpc-go's: a call whose attempt it ended is not retried")
	}
	switch retried := slices.Contains(a.always, codes.DeadlineExceeded); {
	case used.policy.GetPerAttemptTimeout().AsDuration() <= 0:
	case retried:
		e.note("an attempt that its own timeout ends counts as DEADLINE_EXCEEDED, so it is retried")
	default:
		e.note("an attempt that its own timeout ends counts as DEADLINE_EXCEEDED, so it is not retried")
	}
	if s.protos == nil {
		e.note(uncheckedNames)
	}
	e.note("options in the program's code (WithMethodPolicy, WithPolicy, WithBudget, WithClassifier, ...) outrank all of this; options of a call change single fields")
}

func (e *explained) note(format string, args ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
}

func codeList(list []codes.Code) []string {
	if len(list) == 0 {
		return []string{}
	}
	return strings.Split(codeNames(list), ", ")
}
