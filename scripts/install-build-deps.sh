#!/bin/sh
# Installs what building and linting need on a Debian machine with Rust. Does nothing if everything is there already.
set -eu

say() { echo "install-build-deps: $*"; }

have() { command -v "$1" >/dev/null 2>&1; }

have cc || "$(dirname "$0")/install-packages.sh" gcc

if ! have cargo; then
    say "cargo is missing: install Rust from https://rustup.rs" >&2
    exit 1
fi

for component in rustfmt clippy; do
    tool=cargo-$component
    [ "$component" = rustfmt ] && tool=rustfmt
    if ! "$tool" --version >/dev/null 2>&1; then
        if ! have rustup; then
            say "$component is missing and there is no rustup to install it with" >&2
            exit 1
        fi
        say "adding the Rust component $component"
        rustup component add "$component"
    fi
done
