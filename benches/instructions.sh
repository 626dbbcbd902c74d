#!/bin/sh
# How many instructions our start takes, which no noise of the machine changes: the life of `containerpilot -- /bin/true`
# and the check of a configuration with 1,000 jobs. Children are not counted. Prints one line each.
set -eu

program=${1:-target/release/containerpilot}
command -v valgrind >/dev/null 2>&1 || { echo "instructions: valgrind is not installed" >&2; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count() {
    name=$1
    shift
    valgrind --tool=callgrind --callgrind-out-file="$work/callgrind" "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; exit 1; }
    # The first number of the last process that told one is ours.
    echo "$name: $(sed -n 's/.*Collected : //p' "$work/out" | tail -n 1) instructions"
}

{
    echo '{ jobs: ['
    seq 1000 | sed "s/.*/  { name: 'job-&', exec: '\/bin\/true --id &', restarts: 'unlimited', env: { ID: & } },/"
    echo '] }'
} >"$work/thousand.json5"

count "life of containerpilot -- /bin/true" "$program" -- /bin/true
count "check of 1,000 jobs" "$program" check -config "$work/thousand.json5"
