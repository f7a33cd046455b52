package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests here are not parallel: they count the allocations of the process.
func TestCheck_allocationsAndMemory(t *testing.T) {
	var table strings.Builder

	over, err := check(t.Context(), &table, slices.Concat(invokerSections(), streamerSections(), budgetSections()))

	require.NoError(t, err)
	assert.Zero(t, over, table.String())
	perKey, err := keyBytes()
	require.NoError(t, err)
	assert.LessOrEqual(t, perKey, float64(maxKeyBytes))
	assert.Greater(t, perKey, 64.0, "a method without state?")
}

// kept makes what is stored in it escape.
var kept []byte

func TestCheck_seesOneAllocationTooMany(t *testing.T) {
	allocating := func() (subject, error) {
		return subject{run: func(n int) error {
			for range n {
				kept = make([]byte, 64)
			}
			return nil
		}, close: nothing}, nil
	}
	var table strings.Builder

	over, err := check(t.Context(), &table, []section{{name: "s", contestants: []contestant{
		{"within the limit", allocating, 1}, {"over the limit", allocating, 0}, {"unlimited", allocating, -1},
	}}})

	require.NoError(t, err)
	assert.Equal(t, 1, over)
	assert.Contains(t, table.String(), "TOO MANY")
}
