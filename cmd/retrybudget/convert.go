package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
	"github.com/retrybudget/retrybudget/serviceconfig"
)

const convertHelp = `
usage: retrybudget convert [flags] FILE

convert turns a gRPC service config into a configuration of the retrybudget library,
or a configuration into a service config. FILE is told apart by its keys; - is
standard input. The result goes to standard output.

What the other format cannot say is named on standard error, one line each: PATH:
why. From a service config everything about retries is taken; load balancing, health
checks and message sizes are what is lost. Notes say what the same settings mean in
the other format. The jitter of a service config is gRPC's, a fifth up or down.
`

const convertExamples = `
exit status: 0 converted; 1 the file has problems, or something is lost and -strict
is set (nothing is printed then); 2 a bad argument or a file that cannot be read.

examples:
  retrybudget convert service-config.json > retrybudget.yaml
  retrybudget convert retrybudget.yaml > service-config.json
  retrybudget convert -strict retrybudget.yaml
  retrybudget convert -to config -format json retrybudget.yaml
`

// conversion is what convert -json prints.
type conversion struct {
	File   string          `json:"file"`
	From   kind            `json:"from"`
	To     kind            `json:"to"`
	Lost   []string        `json:"lost"`   // "path: why"
	Notes  []string        `json:"notes"`  // what the same settings mean elsewhere
	Result json.RawMessage `json:"result"` // the converted file
}

func convert(args []string, in io.Reader, out, errs io.Writer) (int, error) {
	flags := newFlags("convert", convertHelp, convertExamples)
	to := flags.String("to", "", "`KIND` of the result: config or service-config (default: the other one)")
	format := flags.String("format", "", "`FORMAT` of a configuration: yaml or json (default yaml)")
	strict := flags.Bool("strict", false, "fail if anything is lost")
	asJSON := flags.Bool("json", false, "print JSON: file, from, to, lost, and the result inside it")
	files, err := flags.parse(args, out)
	if err != nil {
		return exitFine, err
	}
	switch {
	case len(files) != 1:
		return exitUsage, badUsage("%d files are given, not one", len(files))
	case !slices.Contains([]string{"", string(ownConfig), string(serviceConfig)}, *to):
		return exitUsage, badUsage("-to %q is neither config nor service-config", *to)
	case !slices.Contains([]string{"", "yaml", "json"}, *format):
		return exitUsage, badUsage("-format %q is neither yaml nor json", *format)
	}
	if *asJSON && *format == "yaml" {
		return exitUsage, badUsage("-format yaml: with -json the result is JSON")
	}
	f, err := readInput(files[0], in)
	if err != nil {
		return exitUsage, err
	}
	c := conversion{File: f.name, From: f.kind, To: kind(*to)}
	if c.To == "" {
		c.To = other(f.kind)
	}
	if c.To == serviceConfig && *format == "yaml" {
		return exitUsage, badUsage("-format yaml: a service config is JSON, gRPC reads nothing else")
	}
	if f.cfg == nil {
		return printProblems(errs, f), nil
	}
	result, err := c.convert(f, *format == "json" || *asJSON)
	if err != nil {
		fmt.Fprintf(errs, "%s: %v\n", f.name, err)
		return exitProblems, nil
	}
	for _, lost := range c.Lost {
		fmt.Fprintf(errs, "%s: lost: %s\n", f.name, lost)
	}
	if len(c.Lost) > 0 && *strict {
		fmt.Fprintf(errs, "%s: -strict: %s lost, nothing is printed\n", f.name, plural(len(c.Lost), "setting"))
		return exitProblems, nil
	}
	for _, note := range c.Notes {
		fmt.Fprintf(errs, "%s: note: %s\n", f.name, note)
	}
	if *asJSON {
		c.Result = result
		return exitFine, writeJSON(out, c)
	}
	_, err = out.Write(result)
	return exitFine, err
}

// meanings returns what is different about the same settings in the other format.
func (c *conversion) meanings(f *input) []string {
	all := []string{}
	if c.From == c.To {
		return all
	}
	if f.cfg.GetDefaultPolicy() == nil {
		if c.To == ownConfig {
			all = append(all, "gRPC does not retry methods that no entry names; here they have the library's defaults, unless default_policy: {max_attempts: 1} is added")
		} else {
			all = append(all, "methods that the configuration does not name have the library's defaults there; gRPC does not retry them")
		}
	}
	if len(f.cfg.GetBudgets()) == 0 {
		if c.To == ownConfig {
			all = append(all, "without retryThrottling gRPC has no budget; here the library's default applies")
		} else {
			all = append(all, "the library's default budget has no counterpart: gRPC's clients retry without one unless retryThrottling is added")
		}
	}
	for _, s := range f.policies() {
		if n := s.policy.GetMaxAttempts(); n > mostDelivered {
			all = append(all, fmt.Sprintf("%s of %d counts as %d in gRPC's clients; here it is used as it is", s.where("max_attempts"), n, mostDelivered))
		}
	}
	return all
}

func other(k kind) kind {
	if k == serviceConfig {
		return ownConfig
	}
	return serviceConfig
}

// printProblems prints what is wrong with a file and returns the exit code.
func printProblems(errs io.Writer, f *input) int {
	for _, p := range f.problems {
		fmt.Fprintln(errs, p)
	}
	return exitProblems
}

// convert returns the result and notes what is lost.
func (c *conversion) convert(f *input, asJSON bool) (result []byte, err error) {
	c.Lost, c.Notes = []string{}, c.meanings(f)
	if f.kind == serviceConfig {
		c.Lost = append(c.Lost, f.unread()...)
	}
	switch {
	case c.To == serviceConfig:
		var lost []string
		result, lost, err = serviceconfig.Marshal(f.cfg)
		c.Lost = append(c.Lost, lost...)
	case asJSON:
		result, err = configJSON(f.cfg)
	default:
		result, err = configYAML(f.cfg)
	}
	return result, err
}

// unread returns the members of a service config that have nothing to do with
// retries.
func (f *input) unread() []string {
	lost := others(f.doc, "", "methodConfig", "retryThrottling")
	list, _ := child(f.doc, "methodConfig")
	for i, entry := range elements(list) {
		lost = append(lost, others(entry, fmt.Sprintf("methodConfig[%d].", i), "name", "timeout", "retryPolicy")...)
	}
	return lost
}

func others(node *yaml.Node, path string, read ...string) (lost []string) {
	node = aliased(node)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if name := node.Content[i].Value; !slices.Contains(read, name) {
			lost = append(lost, path+name+": left out, it does not say how calls are retried")
		}
	}
	return lost
}

// configJSON returns cfg in protobuf's JSON mapping, always the same.
func configJSON(cfg *retrybudgetv1.Config) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	var packed, b bytes.Buffer // protojson's own white space changes from build to build
	if err := json.Compact(&packed, text); err != nil {
		return nil, err
	}
	if err := json.Indent(&b, packed.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
