package retrybudget_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/known/emptypb" // the registered methods' messages

	"github.com/retrybudget/retrybudget"
	"github.com/retrybudget/retrybudget/internal/rpctest"
	retrybudgetv1 "github.com/retrybudget/retrybudget/proto/retrybudget/v1"
)

// registered numbers the files of registerMethod: they stay when a test is over,
// and it may run again.
var registered atomic.Int64

// registerMethod gives the program the descriptor of a method with the options,
// and returns its full name.
func registerMethod(t *testing.T, name string, options *descriptorpb.MethodOptions) string {
	t.Helper()
	name = fmt.Sprintf("%s_%d", name, registered.Add(1))
	empty := new(".google.protobuf.Empty")
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("descriptor_test/" + name + ".proto"), Package: new("descriptortest." + name), Syntax: new("proto3"),
		Dependency: []string{"google/protobuf/empty.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Service"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: new("Method"), InputType: empty, OutputType: empty, Options: options},
		}}},
	}, protoregistry.GlobalFiles)
	require.NoError(t, err)
	require.NoError(t, protoregistry.GlobalFiles.RegisterFile(file))
	return "/descriptortest." + name + ".Service/Method"
}

// stating returns method options with a policy.
func stating(p *retrybudgetv1.Policy) *descriptorpb.MethodOptions {
	o := &descriptorpb.MethodOptions{}
	proto.SetExtension(o, retrybudgetv1.E_Retry, p)
	return o
}

// The quickstart's CountStock states five attempts, waits from 0.2 s to 5 s and
// that it is idempotent.
func TestMethodOption_ofTheQuickstart(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(t *testing.T, cc *grpc.ClientConn) error{
		"unary":  func(t *testing.T, cc *grpc.ClientConn) error { return rpctest.CallMethod(t.Context(), cc, countStock) },
		"stream": func(t *testing.T, cc *grpc.ClientConn) error { return streamOf(t, cc, countStock) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(countStock, rpctest.Fail(codes.Aborted, "another count is under way"))

				err := call(t, s.Dial(t, newRetrier(t).DialOptions()...))

				assert.Equal(t, codes.Aborted, status.Code(err))
				require.Len(t, s.Gaps(""), 4)
				for i, gap := range s.Gaps("") {
					assert.LessOrEqual(t, gap, 200*ms<<i)
				}
			})
		})
	}
}

// streamOf makes a stream of a method, sends one message and reads the answer.
func streamOf(t *testing.T, cc *grpc.ClientConn, method string) error {
	t.Helper()
	cs, err := cc.NewStream(t.Context(), serverStream, method)
	if err != nil {
		return err
	}
	sendAll(t, cs, "hello")
	_, err = recvOne(cs)
	return err
}

// The idempotency that a descriptor declares counts under a policy from elsewhere
// too, unless that says something itself. The option goes before the level.
func TestMethodOption_idempotency(t *testing.T) {
	t.Parallel()
	levels := map[string]*descriptorpb.MethodOptions_IdempotencyLevel{
		"none": nil, "noside": descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum(), "level": descriptorpb.MethodOptions_IDEMPOTENT.Enum(),
	}
	stated := map[string]retrybudgetv1.Idempotency{
		"open": retrybudgetv1.Idempotency_IDEMPOTENCY_UNSPECIFIED, "yes": retrybudgetv1.Idempotency_IDEMPOTENCY_IDEMPOTENT, "no": retrybudgetv1.Idempotency_IDEMPOTENCY_NON_IDEMPOTENT,
	}
	for levelName, level := range levels {
		for statedName, idempotency := range stated {
			t.Run(levelName+"/"+statedName, func(t *testing.T) {
				t.Parallel()
				options := stating(&retrybudgetv1.Policy{Idempotency: idempotency})
				options.IdempotencyLevel = level
				method := registerMethod(t, "idempotency_"+levelName+"_"+statedName, options)
				want := retrybudget.IdempotencyUnknown
				switch {
				case statedName == "yes", statedName == "open" && level != nil:
					want = retrybudget.Idempotent
				case statedName == "no":
					want = retrybudget.NonIdempotent
				}

				assert.Equal(t, want, levelOf(t, method, nil))
				assert.Equal(t, want, levelOf(t, method, []option{retrybudget.WithPolicy(policy{MaxAttempts: 4})}))
				assert.Equal(t, want, levelOf(t, method, []option{withConfig(t, `default_policy { max_attempts: 4 }`)}))
				assert.Equal(t, retrybudget.NonIdempotent, levelOf(t, method, []option{retrybudget.WithPolicy(policy{Idempotency: retrybudget.NonIdempotent})}))
				assert.Equal(t, retrybudget.Idempotent, levelOf(t, method, []option{withConfig(t, `default_policy { idempotency: IDEMPOTENCY_IDEMPOTENT }`)}))
			})
		}
	}
}

// An option that states only idempotency leaves the policy to the resolver.
func TestMethodOption_idempotencyAloneIsNoPolicy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy *retrybudgetv1.Policy
		want   int
	}{
		"idempotency": {&retrybudgetv1.Policy{Idempotency: retrybudgetv1.Idempotency_IDEMPOTENCY_IDEMPOTENT}, 2},
		"more": {&retrybudgetv1.Policy{
			Idempotency:    retrybudgetv1.Idempotency_IDEMPOTENCY_IDEMPOTENT,
			RetryableCodes: []retrybudgetv1.Code{retrybudgetv1.Code_CODE_UNAVAILABLE},
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method := registerMethod(t, "alone_"+name, stating(tt.policy))
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				s.Script(method, rpctest.Unavailable())
				cc := s.Dial(t, append(newRetrier(t, retrybudget.WithResolverPolicies()).DialOptions(), grpc.WithDefaultServiceConfig(twoAttempts))...)

				require.Error(t, rpctest.CallMethod(t.Context(), cc, method))

				assert.Equal(t, tt.want, s.Attempts(""))
			})
		})
	}
}

// An invalid option is not half used, nor dropped without a word: the calls that
// would need it fail before they are sent.
func TestMethodOption_invalidOneFailsTheCalls(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*retrybudgetv1.Policy{
		"max_attempts": {MaxAttempts: proto.Uint32(0)},
		"idempotency":  {Idempotency: 7},
		// The attempt header's name is only known to the Retrier.
		"idempotency_key": {IdempotencyKey: "x-attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method := registerMethod(t, "invalid_"+name, stating(p))
			synctest.Test(t, func(t *testing.T) {
				s := rpctest.New()
				cc := s.Dial(t, newRetrier(t, retrybudget.WithAttemptHeader("x-attempt")).DialOptions()...)
				var finished []error
				for _, err := range []error{
					rpctest.CallMethod(t.Context(), cc, method),
					rpctest.CallMethod(t.Context(), cc, method, grpc.OnFinish(func(err error) { finished = append(finished, err) })),
					streamOf(t, cc, method),
				} {
					assert.Equal(t, codes.Internal, status.Code(err))
					assert.ErrorContains(t, err, "(retrybudget.v1.retry)")
					assert.ErrorContains(t, err, name)
					assert.ErrorContains(t, err, "(method option of "+method+")")
				}
				assert.Len(t, finished, 1)
				assert.Zero(t, s.Attempts(""))

				other := s.Dial(t, newRetrier(t, retrybudget.WithPolicy(policy{})).DialOptions()...)
				assert.NoError(t, rpctest.CallMethod(t.Context(), other, method), "not needed when the code has a policy")
			})
		})
	}
}

// Descriptors that were parsed by somebody who did not know the option carry it
// as unknown bytes.
func TestMethodOption_unknownWhenParsed(t *testing.T) {
	t.Parallel()
	inner, err := proto.Marshal(&retrybudgetv1.Policy{MaxAttempts: proto.Uint32(6), Backoff: &retrybudgetv1.Policy_ConstantBackoff{}})
	require.NoError(t, err)
	raw := protowire.AppendTag(nil, retrybudgetv1.E_Retry.TypeDescriptor().Number(), protowire.BytesType)
	raw = protowire.AppendBytes(raw, inner)
	options := &descriptorpb.MethodOptions{}
	options.ProtoReflect().SetUnknown(raw)
	method := registerMethod(t, "unknown", options)

	assert.Equal(t, 6, callName(t.Context(), newRetrier(t), method, codes.Unavailable))
}

// The number is in the range that protobuf leaves to use within an organization.
func TestMethodOption_number(t *testing.T) {
	t.Parallel()
	n := retrybudgetv1.E_Retry.TypeDescriptor().Number()
	assert.True(t, n >= 50000 && n <= 99999, "%d", n)
	assert.Equal(t, "google.protobuf.MethodOptions", fmt.Sprint(retrybudgetv1.E_Retry.TypeDescriptor().ContainingMessage().FullName()))
}

// A policy of the option holds for calls without room in the key table too.
func TestMethodOption_ofTheCommonKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := rpctest.New()
		s.Script(countStock, rpctest.Unavailable())
		// A drained bucket cannot be dropped, so it keeps the only place.
		r, err := retrybudget.New(bucket(retrybudget.TokenBucketConfig{Initial: 20}), retrybudget.WithMaxKeys(1))
		require.NoError(t, err)
		cc := s.Dial(t, r.DialOptions()...)
		s.Script(rpctest.Method, rpctest.Unavailable())
		require.Error(t, rpctest.Call(t.Context(), cc))
		start := time.Now()

		require.Error(t, rpctest.CallMethod(t.Context(), cc, countStock))

		assert.Equal(t, 5, s.AttemptsOf(countStock))
		assert.Positive(t, time.Since(start))
	})
}
