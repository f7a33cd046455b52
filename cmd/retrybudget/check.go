package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

const checkHelp = `
usage: retrybudget check [flags] FILE...

check reads configurations of the retrybudget library (YAML or JSON) and gRPC
service configs (JSON), tells them apart by their keys, and prints what is wrong
or dangerous in them, one line each: FILE:LINE: error or warning: PATH ... [KIND].
The FILE - is standard input. Each file is judged by itself.

kinds of findings:
  invalid          error: an unknown key, a value out of range, a method named twice
  unknown-method   error: a name that -descriptors does not have; a warning if the
                   file has allow_unknown_methods
  never-retries    a setting with which no retry is made, or that is never used
  unsafe-codes     codes retried on methods not marked idempotent, after which the
                   call may have been applied
  pointless-codes  codes retried whose answer the same request gets again
  product          max attempts to the power of -layers is above -max-product
  no-budget        nothing bounds the retries: an unlimited budget, mode observe, or
                   a service config without retryThrottling (gRPC's own clients have
                   no budget then; this library uses its default)
  small-budget     more than a hundred calls must succeed before the first retry
  stream-timeout   a timeout on methods with streams, which it ends as a whole; seen
                   with -descriptors only

A configuration without budgets has the library's default budget and is fine.
`

const checkExamples = `
exit status: 0 no errors, and no warnings with -strict; 1 otherwise; 2 a bad
argument or a file that cannot be read.

examples:
  retrybudget check retrybudget.yaml
  retrybudget check -strict -allow never-retries *.yaml service-config.json
  buf build -o protos.binpb && retrybudget check -descriptors protos.binpb retrybudget.yaml
  retrybudget check -layers 3 -max-product 30 retrybudget.yaml
  grpcurl ... | retrybudget check -json -
`

// kinds are the kinds of findings, as -h explains them.
var kinds = []string{
	"invalid", "unknown-method", "never-retries", "unsafe-codes", "pointless-codes", "product", "no-budget", "small-budget", "stream-timeout",
}

// checker judges files.
type checker struct {
	protos     *descriptors
	layers     int
	maxProduct float64
	allow      []string
}

// checkReport is what check -json prints.
type checkReport struct {
	Files    []checkedFile `json:"files"`
	Findings []finding     `json:"findings"`
	Errors   int           `json:"errors"`
	Warnings int           `json:"warnings"`
	Notes    []string      `json:"notes"` // what was not looked at
}

// checkedFile sums up a file.
type checkedFile struct {
	File     string      `json:"file"`
	Kind     kind        `json:"kind"`
	Policies int         `json:"policies"`
	Budgets  []allowance `json:"budgets"` // none when there are errors
	Errors   int         `json:"errors"`
	Warnings int         `json:"warnings"`
}

func check(args []string, in io.Reader, out, _ io.Writer) (int, error) {
	flags := newFlags("check", checkHelp, checkExamples)
	var c checker
	var allow names
	protos := flags.String("descriptors", "", "`FILE` with a FileDescriptorSet, for names, idempotency and the method option\n(buf build -o FILE, or protoc --include_imports --descriptor_set_out=FILE)")
	flags.IntVar(&c.layers, "layers", 1, "`N` layers of the call path retry with these settings, one above the other")
	flags.Float64Var(&c.maxProduct, "max-product", 10, "warn when max attempts to the power of -layers is above `N`")
	flags.Var(&allow, "allow", "do not report warnings of these `KINDS`, separated by commas")
	strict := flags.Bool("strict", false, "exit with 1 for warnings too")
	asJSON := flags.Bool("json", false, "print JSON: files, findings, and the numbers of errors and warnings")
	files, err := flags.parse(args, out)
	if err != nil {
		return exitFine, err
	}
	c.allow = allow
	if err := c.validate(files); err != nil {
		return exitUsage, err
	}
	if c.protos, err = readDescriptors(*protos); err != nil {
		return exitUsage, err
	}
	report := checkReport{Files: []checkedFile{}, Findings: []finding{}, Notes: []string{}}
	named := false
	for _, name := range files {
		f, err := readInput(name, in)
		if err != nil {
			return exitUsage, err
		}
		if err := report.add(f, &c); err != nil {
			return exitUsage, err
		}
		named = named || len(f.cfg.GetMethods()) > 0
	}
	if named && c.protos == nil {
		report.Notes = append(report.Notes, uncheckedNames)
	}
	if *asJSON {
		err = writeJSON(out, report)
	} else {
		report.print(out)
	}
	if report.Errors > 0 || *strict && report.Warnings > 0 {
		return exitProblems, err
	}
	return exitFine, err
}

// uncheckedNames is said where a misspelt name would not be seen.
const uncheckedNames = "without -descriptors, names of methods are not checked"

func (c *checker) validate(files []string) error {
	switch {
	case len(files) == 0:
		return badUsage("no FILE is given")
	case c.layers < 1:
		return badUsage("-layers %d is not at least 1", c.layers)
	case !(c.maxProduct >= 1): // nor is NaN
		return badUsage("-max-product %v is not at least 1", c.maxProduct)
	}
	for i, name := range files {
		if name == "-" && slices.Contains(files[:i], "-") {
			return badUsage("standard input can only be read once")
		}
	}
	for _, k := range c.allow {
		if !slices.Contains(kinds, k) {
			return badUsage("-allow %q is not a kind of finding: known are %s", k, strings.Join(kinds, ", "))
		}
	}
	return nil
}

// add judges a file.
func (r *checkReport) add(f *input, c *checker) error {
	found := f.problems
	of := checkedFile{File: f.name, Kind: f.kind, Budgets: []allowance{}}
	if f.cfg != nil {
		warnings, err := c.findings(f)
		if err != nil {
			return err
		}
		found = append(found, warnings...)
		of.Policies = len(f.policies())
		if of.Budgets, err = f.allowances(); err != nil {
			return err
		}
	}
	sortFindings(found)
	of.Errors, of.Warnings = count(found, isError), count(found, isWarning)
	r.Files = append(r.Files, of)
	r.Findings = append(r.Findings, found...)
	r.Errors += of.Errors
	r.Warnings += of.Warnings
	return nil
}

func (r *checkReport) print(out io.Writer) {
	for _, f := range r.Findings {
		fmt.Fprintln(out, f)
	}
	for _, f := range r.Files {
		fmt.Fprintf(out, "%s: %s, %s, %s", f.File, f.Kind, plural(f.Errors, "error"), plural(f.Warnings, "warning"))
		if f.Errors == 0 {
			fmt.Fprintf(out, "; %s", plural(f.Policies, "policy"))
		}
		fmt.Fprintln(out)
		for _, b := range f.Budgets {
			fmt.Fprintf(out, "  budget: %s; %s\n", b, b.Source)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
}
