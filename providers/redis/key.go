package redis

import "strings"

// keyOf returns the Redis key of a bucket. What stands in braces is the hash tag:
// it alone decides on which node of a cluster the key is.
func keyOf(prefix, target, method string) string {
	var b strings.Builder
	escape(&b, prefix)
	b.WriteString(":{")
	escape(&b, target)
	b.WriteByte('|')
	escape(&b, method)
	b.WriteByte('}')
	return b.String()
}

// escape writes s so that different names stay different and no name can end the
// hash tag or pose as two: what is not printable ASCII, and the four characters
// with a meaning, become %XX.
func escape(b *strings.Builder, s string) {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("%{}|", c) >= 0 {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
			continue
		}
		b.WriteByte(c)
	}
}
