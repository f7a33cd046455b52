package retrybudget

// HopelessPrefixes returns the message prefixes of grpcerrors.go, so that a
// test with the real library can show that it produced each of them.
func HopelessPrefixes() []string {
	var all []string
	for _, h := range hopeless {
		all = append(all, h.prefix)
	}
	return all
}
