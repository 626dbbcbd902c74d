#!/bin/sh
# Prints the path of a `consul` for the tests: the one on the PATH, else one unpacked into the build folder.
# Debian's bullseye is the newest release that packages it; apt checks the signatures, the system stays as it is.
set -eu

cd "$(dirname "$0")/.."
tools="${CARGO_TARGET_DIR:-$PWD/target}/tools"
unpacked="$tools/consul/usr/bin/consul"

say() { echo "fetch-consul: $*" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

give_up() {
    say "$1"
    say "the tests of service discovery need Consul 1.8 or newer: install it from"
    say "https://developer.hashicorp.com/consul/install and put 'consul' on the PATH"
    exit 1
}

# The first Debian archive that this machine's own apt is configured with; security and other archives do not
# hold the package.
mirror() {
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] && sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' "$file"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$file" ] && sed -n 's/^deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}\([^[:space:]]*\).*/\2/p' "$file"
    done
}

if have consul; then
    command -v consul
    exit
fi
if [ -x "$unpacked" ]; then
    echo "$unpacked"
    exit
fi

have apt-get && have dpkg-deb || give_up "there is no 'consul' on the PATH, and no apt-get to get it with"
archive=$(mirror | grep '/debian/*$' | head -n 1)
[ -n "$archive" ] || give_up "there is no 'consul' on the PATH, and apt knows no Debian archive to get it from"

keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$keys" ] || give_up "the keys of the Debian archive are missing: install debian-archive-keyring"

say "unpacking the package 'consul' of Debian bullseye into the build folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$tools"
: >"$work/status"
echo "deb [signed-by=$keys] $archive bullseye main" >"$work/sources.list"

private_apt() {
    apt-get -q \
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
        -o APT::Sandbox::User=root -o Acquire::Languages=none "$@" >&2
}

private_apt update || give_up "cannot read the package lists of bullseye"
(cd "$work" && private_apt download consul) || give_up "cannot download the package 'consul'"
dpkg-deb -x "$work"/consul_*.deb "$work/unpacked"
rm -rf "$tools/consul"
mv "$work/unpacked" "$tools/consul"
"$unpacked" version >&2 || give_up "the unpacked consul does not run here"
echo "$unpacked"
