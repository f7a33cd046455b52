package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkSections has the contestants of the table as plain benchmarks, for
// profiles and for benchstat: go test -bench 'Sections/invoker/success'.
func BenchmarkSections(b *testing.B) {
	for _, sec := range sections() {
		for _, c := range sec.contestants {
			b.Run(sec.name+"/"+c.name, func(b *testing.B) {
				s, err := c.open()
				require.NoError(b, err)
				defer s.close()
				b.ReportAllocs()
				b.ResetTimer()
				require.NoError(b, s.run(b.N))
			})
		}
	}
}
