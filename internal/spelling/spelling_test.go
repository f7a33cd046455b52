package spelling_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/retrybudget/retrybudget/internal/spelling"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"CANCELLED", "UNAVAILABLE", "OFF", "maxAttempts"}
	for name, want := range map[string]string{
		"CANCELED":                "CANCELLED",
		"canceled":                "CANCELLED",
		"UNAVALABLE":              "UNAVAILABLE",
		"UN_AVAILABLE":            "UNAVAILABLE",
		"max_attempts":            "maxAttempts",
		"maxAtempt":               "maxAttempts",
		"UNAVAIL":                 "", // four letters are too many
		"of":                      "", // short names have to be right
		"":                        "",
		strings.Repeat("a", 1000): "",
	} {
		assert.Equal(t, want, spelling.Nearest(name, known), name)
	}
}
