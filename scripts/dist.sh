#!/bin/sh
# Makes what is shipped, in target/dist: one static program for x86-64 Linux, and a tarball of it with completions,
# manual page, licences and checksum. The flags are here so that a plain `cargo build` stays plain.
#
# Another C library: `rustup target add x86_64-unknown-linux-musl`, a C compiler for it (Debian: musl-tools), and
# DIST_TARGET=x86_64-unknown-linux-musl make dist
set -eu

cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=${DIST_TARGET:-x86_64-unknown-linux-gnu}
build="${CARGO_TARGET_DIR:-$PWD/target}"
dist="$PWD/target/dist"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name="containerpilot-$version-x86_64-linux"

fail() {
    echo "dist: $*" >&2
    exit 1
}

# Static, so that it depends on no file of the system it runs on. getrandom's default would look for symbols of a
# shared library. Packed relocations and folded copies of the same code save a tenth.
RUSTFLAGS='-C target-feature=+crt-static --cfg getrandom_backend="linux_getrandom"'
RUSTFLAGS="$RUSTFLAGS -C link-arg=-Wl,-z,pack-relative-relocs -C link-arg=-Wl,--icf=all"
export RUSTFLAGS
$cargo build --profile shipped --bin containerpilot --target "$target"
unset RUSTFLAGS

rm -rf "$dist"
mkdir -p "$dist/$name"
cp "$build/$target/shipped/containerpilot" "$dist/containerpilot"

size=$(wc -c <"$dist/containerpilot")
if readelf --program-headers "$dist/containerpilot" | grep -q INTERP; then
    fail "the program is not static"
fi
"$dist/containerpilot" -version >/dev/null || fail "the program does not run here"

$cargo run --quiet --example manual -- "$dist/$name/share"
cp "$dist/containerpilot" LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "$dist/$name"
tar -C "$dist" --sort=name --owner=0 --group=0 --numeric-owner -czf "$dist/$name.tar.gz" "$name"
rm -rf "${dist:?}/$name"
(cd "$dist" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "dist: $size bytes of static program; $dist/$name.tar.gz"
