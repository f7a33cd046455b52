package main

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// stated is a policy, and where it is stated.
type stated struct {
	policy *retrybudgetv1.Policy
	names  []string // the methods and services it is for; none for all others
	file   *input   // nil for a method option and the library's default
	origin string   // of a policy that is in no file
	path   string   // in the file
	// fields are the paths of the policy's fields, where they are not path and the
	// field's name.
	fields map[string]string
}

// where returns the path of one of its fields.
func (s stated) where(field string) string {
	if s.fields == nil {
		return s.path + "." + field
	}
	if at := s.fields[field]; at != "" {
		return s.path + "." + at
	}
	return s.path
}

// line returns the line of a field, and that of the policy if the field is not there.
func (s stated) line(field string) int {
	if s.file == nil {
		return 0
	}
	return s.file.line(s.where(field))
}

// String says where the policy is stated.
func (s stated) String() string {
	if s.file == nil {
		return s.origin
	}
	return fmt.Sprintf("%s (%s:%d)", s.path, s.file.name, s.file.line(s.path))
}

// covers says for which methods it is, if not for all.
func (s stated) covers() string {
	switch n := len(s.names); {
	case n == 0:
		return "all other methods"
	case n <= 3:
		return strings.Join(s.names, ", ")
	default:
		return fmt.Sprintf("%s and %d more", strings.Join(s.names[:2], ", "), n-2)
	}
}

// policies returns the policies of a file, in its order.
func (f *input) policies() []stated {
	var all []stated
	if p := f.cfg.GetDefaultPolicy(); p != nil {
		all = append(all, f.stated("default_policy", nil, p))
	}
	for i, m := range f.cfg.GetMethods() {
		all = append(all, f.stated(fmt.Sprintf("methods[%d].policy", i), m.GetNames(), m.GetPolicy()))
	}
	return all
}

// serviceFields are the fields of a policy that a service config has.
var serviceFields = map[string]string{
	"timeout":             "timeout",
	"max_attempts":        "retryPolicy.maxAttempts",
	"retryable_codes":     "retryPolicy.retryableStatusCodes",
	"exponential_backoff": "retryPolicy.initialBackoff",
}

func (f *input) stated(path string, names []string, p *retrybudgetv1.Policy) stated {
	s := stated{policy: p, names: names, file: f, path: path}
	if f.kind == serviceConfig {
		first := ""
		if len(names) > 0 {
			first = names[0]
		}
		s.path, s.fields = f.entry(first), serviceFields
	}
	return s
}

// entry returns the path of the entry of methodConfig for a name, "" for the
// default.
func (f *input) entry(name string) string {
	list, _ := child(f.doc, "methodConfig")
	for i := range elements(list) {
		path := fmt.Sprintf("methodConfig[%d]", i)
		entry, _ := child(list, fmt.Sprintf("[%d]", i))
		of, _ := child(entry, "name")
		for _, n := range elements(of) {
			service, method := text(n, "service"), text(n, "method")
			if full := "/" + service + "/" + method; full == name || full == "//" && name == "" {
				return path
			}
		}
	}
	return "methodConfig"
}

// elements returns the elements of a list, none of what is no list.
func elements(node *yaml.Node) []*yaml.Node {
	if node == nil {
		return nil
	}
	if node = aliased(node); node.Kind != yaml.SequenceNode {
		return nil
	}
	return node.Content
}

// text returns a member of a mapping that is a text.
func text(node *yaml.Node, name string) string {
	if v, _ := child(node, name); v != nil {
		return aliased(v).Value
	}
	return ""
}

// search is where the policy of a method is looked for.
type search struct {
	file     *input // what WithConfig is given; may be nil
	resolver *input // the service config that the resolver delivers; may be nil
	protos   *descriptors
}

// candidates returns the policies that there are for a method, the one that is
// used first. The order is that of retrybudget.WithConfig, and the last is always
// the library's default.
func (s search) candidates(method string) []stated {
	var all []stated
	if s.file != nil {
		all = ofMethod(s.file.policies(), method)
	}
	if d, _ := s.protos.find(method); d.policy != nil {
		all = append(all, stated{policy: d.policy, origin: fmt.Sprintf("the method option %s in %s", optionName, s.protos.file)})
	}
	if s.resolver != nil && s.file != nil && s.file.cfg.GetResolverPolicies() {
		// gRPC uses the first entry that matches, and one without a retryPolicy
		// gives the library nothing.
		if of := ofMethod(s.resolver.policies(), method); len(of) > 0 && of[0].policy.GetMaxAttempts() != 1 {
			all = append(all, delivered(of[0]))
		}
	}
	return append(all, stated{policy: &retrybudgetv1.Policy{}, origin: "the library's defaults"})
}

// ofMethod returns the policies for a method: its own, its service's, the default.
func ofMethod(all []stated, method string) (found []stated) {
	service := method[:strings.LastIndexByte(method, '/')+1]
	for _, name := range []string{method, service} {
		for _, s := range all {
			if slices.Contains(s.names, name) {
				found = append(found, s)
			}
		}
	}
	for _, s := range all {
		if len(s.names) == 0 {
			found = append(found, s)
		}
	}
	return found
}

// mostDelivered is what grpc-go reduces maxAttempts to, unless the program says
// otherwise with grpc.WithMaxCallAttempts.
const mostDelivered = 5

// delivered returns what of a service config's policy the library uses when the
// resolver delivered it.
func delivered(s stated) stated {
	p := s.policy
	s.policy = &retrybudgetv1.Policy{
		MaxAttempts:    new(min(p.GetMaxAttempts(), mostDelivered)),
		Backoff:        p.GetBackoff(),
		RetryableCodes: p.GetRetryableCodes(),
	}
	return s
}
