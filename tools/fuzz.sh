#!/usr/bin/env bash
# Runs every Fuzz target of the module in the current folder, each for the
# given time: tools/fuzz.sh 10s. Goes on after a failure and fails at the end.
set -euo pipefail

fuzztime=${1:?usage: fuzz.sh FUZZTIME}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() {
	go test -run='^$' -fuzz="^$2\$" -fuzztime="$fuzztime" "$1" 2>&1 | tee "$log"
}

# In Go before 1.27 the end of -fuzztime is now and then reported as a failure
# (golang/go#75804). It is the only failure with this text and nothing else
# under the FAIL line: a bad input is reported as a failed subtest.
ended_by_deadline() {
	[[ $(grep -A2 '^--- FAIL: ' "$log") =~ ^'--- FAIL: '[^$'\n']+$'\n    context deadline exceeded\nFAIL'$ ]]
}

# go test -list prints the targets of a package, then the package's "ok" line.
targets=$(go test -list='^Fuzz' ./... |
	awk '/^Fuzz/ { names[n++] = $1 } /^ok/ { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }')

failed=0
while read -r package target; do
	[[ -n "$target" ]] || continue
	echo "$package $target"
	fuzz "$package" "$target" && continue
	if ended_by_deadline; then
		echo "$target: the end of -fuzztime was reported as a failure, running it once more"
		fuzz "$package" "$target" && continue
	fi
	failed=1
done <<<"$targets"
exit "$failed"
