package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine says where the figures come from.
func machine() string {
	return fmt.Sprintf("%s %s/%s, %s, GOMAXPROCS %d.", runtime.Version(), runtime.GOOS, runtime.GOARCH, processor(), runtime.GOMAXPROCS(0))
}

// processor returns its name where Linux tells it.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return "unknown processor"
}
