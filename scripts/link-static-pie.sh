#!/bin/sh
# Links a static, position-independent program where Rust's target knows only a static one: rustc asks for a program at a
# fixed address, and this hands the linker the start files and options of a position-independent one instead.
# LINKER_OF_TARGET is the real linker.
set -eu

for argument; do
    shift
    case $argument in
    */self-contained/crt1.o) set -- "$@" "${argument%crt1.o}rcrt1.o" ;;
    */self-contained/crtbegin.o) set -- "$@" "${argument%.o}S.o" ;;
    */self-contained/crtend.o) set -- "$@" "${argument%.o}S.o" ;;
    -no-pie) set -- "$@" -static-pie ;;
    -static) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec "$LINKER_OF_TARGET" "$@"
