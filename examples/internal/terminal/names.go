package terminal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names splits a list at its commas.
func Names(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// CheckNames returns an error, which begins with the flag, if there is no name,
// one that is not known, or one twice.
func CheckNames(flag string, names, known []string) error {
	if len(names) == 0 {
		return errors.New(flag + ": names none")
	}
	for i, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s %q: unknown; known are %s", flag, name, strings.Join(known, ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%s %q: named twice", flag, name)
		}
	}
	return nil
}
