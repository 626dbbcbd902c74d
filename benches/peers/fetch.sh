#!/bin/sh
# Unpacks the peers into the build folder and compiles the helpers (`fetch.sh helpers`: these alone); prints that
# folder. Nothing is installed on the machine and no daemon is started. What cannot be had is left out: the harness
# says so in its table.
set -eu

cd "$(dirname "$0")"
here=$PWD
peers="${CARGO_TARGET_DIR:-$here/../../target}/peers"
mkdir -p "$peers/bin" "$peers/deb" "$peers/root"
peers=$(cd "$peers" && pwd)

say() { echo "fetch: $*" >&2; }

# Static, so that a helper's own start costs the same whatever the library path of the peer that runs it.
for source in helpers/*.c; do
    program="$peers/bin/$(basename "$source" .c)"
    if [ ! -x "$program" ] || [ "$source" -nt "$program" ] || [ helpers/common.h -nt "$program" ]; then
        cc -O2 -Wall -Wextra -static -o "$program" "$source"
    fi
done

if [ "${1:-}" = helpers ]; then
    echo "$peers"
    exit
fi

packages="s6 libs6-2.11 libskarnet2.13 libexecline2.9 execline runit supervisor python3-pkg-resources tini dumb-init catatonit monit"

if command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1; then
    for package in $packages; do
        [ -e "$peers/deb/$package.done" ] && continue
        say "unpacking the Debian package $package"
        if (cd "$peers/deb" && rm -f "$package"_*.deb && apt-get -qq -o APT::Sandbox::User=root download "$package" >&2) \
            && dpkg-deb -x "$peers/deb/$package"_*.deb "$peers/root"; then
            : >"$peers/deb/$package.done"
        else
            say "cannot get $package: going on without it"
        fi
    done
else
    say "no apt-get and dpkg-deb here: only peers that are on the PATH take part"
fi

# Debian's s6-svscan has the path of s6-supervise built in; of the same length, and found in the folder that it scans:
if [ -x "$peers/root/usr/bin/s6-svscan" ] && [ ! -x "$peers/root/usr/bin/s6-svscan-here" ]; then
    LC_ALL=C sed 's#/usr/bin/s6-supervise#.///////.s6-supervise#' "$peers/root/usr/bin/s6-svscan" >"$peers/root/usr/bin/s6-svscan-here"
    chmod +x "$peers/root/usr/bin/s6-svscan-here"
fi

if [ ! -x "$peers/cargo/bin/horust" ]; then
    say "building horust from crates.io"
    nice "${CARGO:-cargo}" install --quiet --locked --root "$peers/cargo" --target-dir "$peers/cargo-build" horust >&2 \
        || say "cannot build horust: going on without it"
    rm -rf "$peers/cargo-build"
fi
echo "$peers"
