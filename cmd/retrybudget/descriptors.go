package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// optionName is the method option, as .proto files write it.
const optionName = "(retrybudget.v1.retry)"

// descriptors is what a FileDescriptorSet says about methods. A nil one says
// nothing.
type descriptors struct {
	file     string
	methods  []declared // in the order of the set
	services map[string]bool
}

// declared is what the descriptor of a method says.
type declared struct {
	name        string // "/pkg.Service/Method"
	idempotency retrybudgetv1.Idempotency
	source      string                // where idempotency is from; empty when it is not said
	policy      *retrybudgetv1.Policy // of the option; nil when it has none, or says idempotency only
	streams     bool                  // of requests, responses or both
}

// readDescriptors reads a FileDescriptorSet, "" for none.
func readDescriptors(file string) (*descriptors, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("-descriptors: %w", err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(data, set); err != nil || len(set.GetFile()) == 0 {
		return nil, badUsage("-descriptors %s is not a FileDescriptorSet: make it with buf build -o or protoc --include_imports --descriptor_set_out", file)
	}
	d := &descriptors{file: file, services: map[string]bool{}}
	for _, f := range set.GetFile() {
		for _, s := range f.GetService() {
			service := "/" + strings.TrimPrefix(f.GetPackage()+"."+s.GetName(), ".") + "/"
			d.services[service] = true
			for _, m := range s.GetMethod() {
				of := declaredBy(service+m.GetName(), m.GetOptions())
				of.streams = m.GetClientStreaming() || m.GetServerStreaming()
				d.methods = append(d.methods, of)
			}
		}
	}
	return d, nil
}

func declaredBy(name string, opts *descriptorpb.MethodOptions) declared {
	d := declared{name: name}
	switch level := opts.GetIdempotencyLevel(); level {
	case descriptorpb.MethodOptions_NO_SIDE_EFFECTS, descriptorpb.MethodOptions_IDEMPOTENT:
		d.idempotency = retrybudgetv1.Idempotency_IDEMPOTENCY_IDEMPOTENT
		d.source = "idempotency_level " + level.String()
	default:
	}
	option, ok := proto.GetExtension(opts, retrybudgetv1.E_Retry).(*retrybudgetv1.Policy)
	if !ok || option == nil {
		return d
	}
	if i := option.GetIdempotency(); i != retrybudgetv1.Idempotency_IDEMPOTENCY_UNSPECIFIED {
		d.idempotency, d.source = i, optionName
	}
	option.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Name() != "idempotency" { // alone it is no policy
			d.policy = option
		}
		return d.policy == nil
	})
	return d
}

// find returns what is known of a method.
func (d *descriptors) find(method string) (declared, bool) {
	if d == nil {
		return declared{name: method}, false
	}
	i := slices.IndexFunc(d.methods, func(m declared) bool { return m.name == method })
	if i < 0 {
		return declared{name: method}, false
	}
	return d.methods[i], true
}

// knows reports whether there is a method, or a service "/pkg.Service/".
func (d *descriptors) knows(name string) bool {
	if strings.HasSuffix(name, "/") {
		return d.services[name]
	}
	_, ok := d.find(name)
	return ok
}
