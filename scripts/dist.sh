#!/bin/sh
# Makes what is shipped, in target/dist: one static program for x86-64 Linux, and a tarball of it with completions,
# manual page, licences and checksum. The flags are here so that a plain `cargo build` stays plain.
#
# The program is built upon musl: that is a megabyte smaller than upon glibc, and names are resolved in an empty root
# file system. `DIST_TARGET=x86_64-unknown-linux-gnu make dist` builds it upon glibc.
set -eu

cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=${DIST_TARGET:-x86_64-unknown-linux-musl}
build="${CARGO_TARGET_DIR:-$PWD/target}"
dist="$PWD/target/dist"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name="containerpilot-$version-x86_64-linux"

say() { echo "dist: $*" >&2; }

fail() {
    say "$*"
    exit 1
}

has_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; }

has_target || rustup target add "$target" || fail "Rust's target $target is missing: rustup target add $target"

# The program does not move in memory and so need not relocate itself: smaller, and it starts sooner. Its heap, stack
# and mappings are at random places all the same.
flags="-C target-feature=+crt-static -C relocation-model=static"
case $target in
*-musl)
    # Needed for the C and assembly of `ring`, which use no C library.
    command -v musl-gcc >/dev/null 2>&1 || export CC_x86_64_unknown_linux_musl="${CC:-cc}"
    limit=5000000
    ;;
*)
    # getrandom's default would look for symbols of a shared library.
    flags="$flags --cfg getrandom_backend=\"linux_getrandom\""
    limit=7000000
    ;;
esac
RUSTFLAGS=$flags $cargo build --profile shipped --bin containerpilot --target "$target"

rm -rf "$dist"
mkdir -p "$dist/$name"
# Cargo leaves the symbols of the C library in.
strip -o "$dist/containerpilot" "$build/$target/shipped/containerpilot"

size=$(wc -c <"$dist/containerpilot")
[ "$size" -lt "$limit" ] || fail "the program has $size bytes; it must have less than $limit"
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
