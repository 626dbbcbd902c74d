#!/bin/sh
# Runs run.py with what it needs: cargo-mutants, and a parser of Rust for Python, both in the build folder.
set -eu

cd "$(dirname "$0")/../.."
tools="$PWD/target/mutants/tools"
cargo=${CARGO:-cargo}
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/python" -c 'import tree_sitter, tree_sitter_rust' 2>/dev/null ||
    "$tools/bin/pip" install --quiet 'tree-sitter>=0.25,<0.27' tree-sitter-rust
[ -x "$tools/bin/cargo-mutants" ] || command -v cargo-mutants >/dev/null ||
    "$cargo" install --quiet --locked --root "$tools" cargo-mutants
PATH="$tools/bin:$PATH" CARGO="$cargo" PYTHONDONTWRITEBYTECODE=1 exec "$tools/bin/python" scripts/mutants/run.py "$@"
