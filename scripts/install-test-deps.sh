#!/bin/sh
# Installs what the tests need on a Debian machine. Does nothing if everything is there already.
set -eu

# Where Debian has nginx and debootstrap, and where not everybody looks.
PATH="$PATH:/usr/sbin"

say() { echo "install-test-deps: $*"; }

have() { command -v "$1" >/dev/null 2>&1; }

# tool:package
needed="curl:curl ip:iproute2 openssl:openssl ps:procps unshare:util-linux"
# Tests that need one of these are skipped where it cannot be had, and fail in CI.
wanted="haproxy:haproxy jq:jq nginx:nginx-light python3:python3 prometheus:prometheus promtool:prometheus
    redis-server:redis-server s6-ipcserver:s6 systemd-notify:systemd chromium:chromium chromedriver:chromium-driver"
# Debian has it outside of PATH.
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$wanted initdb:postgresql"
# Its name has its version.
ls /usr/sbin/php-fpm* >/dev/null 2>&1 || wanted="$wanted php-fpm:php-fpm"
# The container tests make their base image with it; they need an engine that is there already.
if have docker && docker version >/dev/null 2>&1; then
    wanted="$wanted debootstrap:debootstrap"
fi

# The packages of those tools in "tool:package …" that are missing.
missing() {
    for entry in $1; do
        have "${entry%%:*}" || echo "${entry#*:}"
    done | sort -u | tr '\n' ' '
}

install() { "$(dirname "$0")/install-packages.sh" "$@"; }

packages=$(missing "$needed")
if [ -n "$packages" ]; then
    # shellcheck disable=SC2086 # several words are meant
    install $packages
fi

packages=$(missing "$wanted")
if [ -n "$packages" ]; then
    # shellcheck disable=SC2086 # several words are meant
    install $packages || say "going on without $packages: the tests that need it say that they are skipped" >&2
fi
