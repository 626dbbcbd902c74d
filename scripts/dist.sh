#!/bin/sh
# Makes what is shipped, in target/dist: for each architecture one static, position-independent program upon musl, and a
# tarball of it with completions, manual page, licences and checksum. It is the release build, for another target.
#
# DIST_ARCHITECTURES="x86_64" makes one of them only.
set -eu

cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
architectures=${DIST_ARCHITECTURES:-x86_64 aarch64}
build="${CARGO_TARGET_DIR:-$PWD/target}"
dist="$PWD/target/dist"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The goal is 7.5 MB, which is missed by 1.4 %; ContainerPilot 3.8 has 8.1 MB.
limit=7700000

say() { echo "dist: $*" >&2; }

fail() {
    say "$*"
    exit 1
}

# Rust's target and the C compiler for the C and assembly of `ring`, which use no C library; it links, too.
prepare() {
    target="$1-unknown-linux-musl"
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup target add "$target" ||
        fail "Rust's target $target is missing: rustup target add $target"
    if [ "$1" = "$(uname -m)" ]; then
        compiler=${CC:-cc}
    else
        compiler="$1-linux-gnu-gcc"
        # Debian's name of the architecture; its headers do not come with the compiler.
        debian=$(echo "$1" | sed 's/aarch64/arm64/; s/x86_64/amd64/')
        echo '#include <stdint.h>' | "$compiler" -fsyntax-only -x c - >/dev/null 2>&1 ||
            ./scripts/install-packages.sh "gcc-$(echo "$1" | tr _ -)-linux-gnu" "libc6-dev-$debian-cross" ||
            fail "$compiler or its headers are missing"
    fi
    variable=$(echo "$1_unknown_linux_musl" | tr - _)
    export "CC_$variable=$compiler"
    linker=$compiler
    # Rust makes static programs for aarch64 that are not position-independent.
    if [ "$1" = aarch64 ]; then
        linker="$PWD/scripts/link-static-pie.sh"
        export "LINKER_OF_TARGET=$compiler"
    fi
    export "CARGO_TARGET_$(echo "$variable" | tr '[:lower:]' '[:upper:]')_LINKER=$linker"
}

check() {
    size=$(wc -c <"$1")
    [ "$size" -lt "$limit" ] || fail "$1 has $size bytes; it must have less than $limit"
    readelf --program-headers --wide "$1" | grep -q INTERP && fail "$1 is not static"
    readelf --file-header "$1" | grep -q 'Type:.*DYN' || fail "$1 is not position-independent"
    readelf --program-headers --wide "$1" | grep -q GNU_RELRO || fail "$1 has no RELRO"
    readelf --dynamic "$1" | grep -q 'BIND_NOW\|NOW' || fail "$1 has no full RELRO"
}

rm -rf "$dist"
mkdir -p "$dist"
$cargo run --quiet --example manual -- "$dist/share"
for architecture in $architectures; do
    prepare "$architecture"
    $cargo build --release --bin containerpilot --target "$target"
    name="containerpilot-$version-$architecture-linux"
    program="$dist/containerpilot-$architecture"
    cp "$build/$target/release/containerpilot" "$program"
    check "$program"
    mkdir "$dist/$name"
    cp "$program" "$dist/$name/containerpilot"
    cp -r "$dist/share" LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "$dist/$name"
    tar -C "$dist" --sort=name --owner=0 --group=0 --numeric-owner -czf "$dist/$name.tar.gz" "$name"
    rm -rf "${dist:?}/$name"
    (cd "$dist" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
    echo "dist: $size bytes of static program; $dist/$name.tar.gz"
done
rm -rf "${dist:?}/share"
if [ -e "$dist/containerpilot-$(uname -m)" ]; then
    cp "$dist/containerpilot-$(uname -m)" "$dist/containerpilot"
    "$dist/containerpilot" -version >/dev/null || fail "the program does not run here"
fi
