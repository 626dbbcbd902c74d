#!/bin/sh
# Installs Debian packages, as root or with sudo; fails with a message where that cannot be done.
set -eu

say() { echo "install-packages: $*" >&2; }

if ! command -v apt-get >/dev/null 2>&1; then
    say "this machine has no apt-get: please install $* yourself"
    exit 1
elif [ "$(id -u)" -eq 0 ]; then
    root=""
elif command -v sudo >/dev/null 2>&1; then
    root="sudo"
else
    say "neither root nor sudo: please run 'apt-get install $*' as root"
    exit 1
fi
say "installing $* with apt-get"
$root apt-get update -qq && $root apt-get install -y -qq --no-install-recommends "$@" >&2
