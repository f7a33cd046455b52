//go:build !unix

package machine

import "time"

// processorTime is not known on this system; the report says so.
func processorTime() (time.Duration, bool) { return 0, false }
