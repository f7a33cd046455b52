package retrybudget

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// hopeless lists errors that grpc-go makes itself, on either side, and that
// come again on every attempt: the message will not fit next time either. They
// have the codes of passing trouble, so only their text tells them apart. A test
// makes the real library produce each of them, so that an upgrade that changes a
// text is noticed.
var hopeless = []struct {
	code   codes.Code
	prefix string
}{
	{codes.ResourceExhausted, "trying to send message larger than max"},
	{codes.ResourceExhausted, "grpc: received message larger than max"},
	{codes.ResourceExhausted, "grpc: message after decompression larger than max"},
	{codes.ResourceExhausted, "grpc: received message after decompression larger than max"},
	{codes.Internal, "grpc: error while marshaling"},
	{codes.Internal, "grpc: error while compressing"},
	{codes.Internal, "grpc: failed to unmarshal the received message"},
	{codes.Internal, "grpc: failed to decompress the received message"},
	{codes.Internal, "grpc: failed to decompress the message"},
	{codes.Internal, "grpc: failed to read decompressed data"},
	{codes.Internal, "grpc: Compressor is not installed for requested grpc-encoding"},
	{codes.Internal, "no codec registered for content-subtype"},
	{codes.Internal, "grpc: Decompressor is not installed for grpc-encoding"},
	{codes.Internal, "header key "}, // metadata that cannot be sent
	{codes.Internal, "header list size to send violates the maximum size"},
}

// isHopeless reports whether the status is one of grpc-go's own that no retry
// can help.
func isHopeless(st *status.Status) bool {
	code := st.Code()
	if code != codes.ResourceExhausted && code != codes.Internal {
		return false
	}
	for _, h := range hopeless {
		if h.code == code && strings.HasPrefix(st.Message(), h.prefix) {
			return true
		}
	}
	return false
}

// closingText is grpc-go's status message for a call on a closed ClientConn.
const closingText = "grpc: the client connection is closing"

// isClosing reports whether the status says that the connection was closed.
func isClosing(st *status.Status) bool {
	return st.Code() == codes.Canceled && st.Message() == closingText
}
