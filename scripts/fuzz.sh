#!/bin/sh
# Runs the fuzz targets, one after the other, and prints how many inputs each has tried.
#
#     scripts/fuzz.sh            every target
#     scripts/fuzz.sh TARGET…    these
#
# FUZZ_SECONDS is the time for each (default 300). Inputs that reach new code are kept in `fuzz/found` and tried first the
# next time; `fuzz/corpus` has those that everybody begins with. An input that fails is in `fuzz/artifacts`.
set -eu

cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
seconds=${FUZZ_SECONDS:-300}
logs=fuzz/target/logs
# Targets with connections look for leaks themselves: actix-web never frees some bytes of each application that is made, and
# that is no finding.
ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
# Compiled once for all commits.
CONTAINERPILOT_GIT_HASH=fuzzing
export ASAN_OPTIONS CONTAINERPILOT_GIT_HASH

say() { echo "fuzz: $*" >&2; }

$cargo +nightly --version >/dev/null 2>&1 || {
    say "the nightly compiler is missing: rustup toolchain install nightly"
    exit 1
}
$cargo fuzz --version >/dev/null 2>&1 || {
    say "installing cargo-fuzz"
    $cargo install --locked cargo-fuzz
}

targets=${*:-$($cargo +nightly fuzz list)}
$cargo +nightly fuzz build
mkdir -p "$logs"
failed=
for target in $targets; do
    mkdir -p "fuzz/found/$target" "fuzz/corpus/$target"
    dictionary=
    [ -f "fuzz/dictionaries/$target.txt" ] && dictionary="-dict=fuzz/dictionaries/$target.txt"
    say "$target, $seconds s"
    # The first folder takes the new inputs.
    # shellcheck disable=SC2086
    $cargo +nightly fuzz run "$target" "fuzz/found/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -timeout=10 -detect_leaks=0 -len_control=0 -print_final_stats=1 $dictionary >"$logs/$target" 2>&1 ||
        failed="$failed $target"
done

stat() { sed -n "s/^stat::$2: *//p" "$logs/$1" | tail -n 1; }

printf '%-16s %12s %10s %9s %s\n' target executions per-second peak-MiB result
for target in $targets; do
    result=passed
    case " $failed " in *" $target "*) result="failed: see $logs/$target" ;; esac
    printf '%-16s %12s %10s %9s %s\n' "$target" "$(stat "$target" number_of_executed_units)" \
        "$(stat "$target" average_exec_per_sec)" "$(stat "$target" peak_rss_mb)" "$result"
done
[ -z "$failed" ]
