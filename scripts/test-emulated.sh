#!/bin/sh
# Runs black-box tests with the program for aarch64, under qemu-user. PROGRAM is the one to test; without it, what
# `make dist` has made.
#
# The tests start a script that starts qemu, since not every machine may register qemu for such programs with the kernel.
set -eu

cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/dist/containerpilot-aarch64}")
qemu=$(command -v qemu-aarch64-static) || {
    ./scripts/install-packages.sh qemu-user-static
    qemu=$(command -v qemu-aarch64-static)
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$qemu" "$program" >"$folder/containerpilot"
chmod 755 "$folder" "$folder/containerpilot"
"$folder/containerpilot" -version

# Left out: what starts hundreds of programs or runs, which takes qemu too long; what needs orphans, which qemu does not hand
# to the program, so that it logs a warning more; what measures our memory, which is qemu's here; and consul_control, which
# is here only because its name ends like that of another file.
CONTAINERPILOT_TESTED="$folder/containerpilot" ${CARGO:-cargo} test --test blackbox -- --test-threads 2 \
    startup:: exit_status:: signals:: reload:: output:: health_exec:: health_http:: control:: \
    --skip consul_control:: \
    --skip cleaned_up_after \
    --skip every_status_of_the_command_is_passed_on \
    --skip every_signal_that_ends_the_command \
    --skip a_thousand_reloads \
    --skip a_hundred_thousand_lines \
    --skip under_load \
    --skip the_lines_of_jobs_are_informational \
    --skip leak_nothing \
    --skip freezes_nothing
