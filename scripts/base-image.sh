#!/bin/sh
# Prints the name of a small Debian image for the container tests, made here: no registry is asked. The same
# release as this machine's, since the tests run the program that was built on it. Made once: the tree stays in the
# build folder, the image in the engine.
set -eu

cd "$(dirname "$0")/.."
tools="${CARGO_TARGET_DIR:-$PWD/target}/tools"

say() { echo "base-image: $*" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

give_up() {
    say "$1: the container tests are skipped"
    exit 1
}

have docker || give_up "there is no docker"
docker version >/dev/null 2>&1 || give_up "no Docker engine answers"

release=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}") || release=
release=${release:-stable}
image="containerpilot-test-base:$release"

# The tests of several files may ask at the same time.
mkdir -p "$tools"
exec 9>"$tools/base-image.lock"
flock 9

if docker image inspect "$image" >/dev/null 2>&1; then
    echo "$image"
    exit
fi

archive="$tools/base-image-$release.tar"
if [ ! -f "$archive" ]; then
    [ "$(id -u)" -eq 0 ] || give_up "only root can make the base image: run scripts/base-image.sh as root once"
    have debootstrap || give_up "debootstrap is missing"
    say "making a base image of Debian $release with debootstrap"
    work=$(mktemp -d "$tools/base-image.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    debootstrap --variant=minbase "$release" "$work/root" >"$work/log" 2>&1 || {
        tail -n 5 "$work/log" >&2
        give_up "debootstrap failed"
    }
    rm -rf "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/*
    tar -C "$work/root" -cf "$work/archive" .
    mv "$work/archive" "$archive"
fi
docker import - "$image" <"$archive" >/dev/null || give_up "the engine does not take the base image"
echo "$image"
