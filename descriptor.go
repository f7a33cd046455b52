package retrybudget

import (
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// declaredOption is the method option's name, as .proto files and errors write it.
const declaredOption = "(retrybudget.v1.retry)"

// declaration is what the descriptor of a method says about retrying it.
type declaration struct {
	idempotency Idempotency
	policy      *Policy // nil when there is none
	err         error   // why the policy cannot be used
}

// undeclared is the declaration of methods that say nothing.
var undeclared = &declaration{}

// declarationOf returns what the method's descriptor says, if the program has it.
func declarationOf(method string) *declaration {
	opts := methodOptions(method)
	if opts == nil {
		return undeclared
	}
	var d declaration
	switch opts.GetIdempotencyLevel() {
	case descriptorpb.MethodOptions_NO_SIDE_EFFECTS, descriptorpb.MethodOptions_IDEMPOTENT:
		d.idempotency = Idempotent
	default:
	}
	m, ok := proto.GetExtension(opts, retrybudgetv1.E_Retry).(*retrybudgetv1.Policy)
	if !ok || m == nil {
		return &d
	}
	var c checker
	p := c.policy(declaredOption, m)
	d.err = errors.Join(c.errs...)
	if p.Idempotency != IdempotencyUnknown {
		d.idempotency = p.Idempotency
	}
	if statesPolicy(m) {
		d.policy = &p
	}
	return &d
}

// statesPolicy reports whether m says more than the method's idempotency.
func statesPolicy(m *retrybudgetv1.Policy) (more bool) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		more = f.Name() != "idempotency"
		return !more
	})
	return more
}

// methodOptions returns the options of a method that the program has the
// descriptor of, else nil. They are read anew: descriptors that were not made by
// generated code may have been parsed without knowledge of our option.
func methodOptions(method string) *descriptorpb.MethodOptions {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	m, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil
	}
	raw, err := proto.Marshal(m.Options())
	if err != nil || len(raw) == 0 {
		return nil
	}
	opts := new(descriptorpb.MethodOptions)
	if proto.Unmarshal(raw, opts) != nil {
		return nil
	}
	return opts
}
