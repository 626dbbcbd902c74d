//! System calls made directly. A process that is being born in our memory while we go on must not make them as others
//! do: it would leave their errors in the `errno` that it shares with us.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::AtomicI32;

use nix::errno::Errno;

/// Whether what is born in our memory leaves our `errno` alone, so that we need not wait for it.
pub(super) const IS_DIRECT: bool = cfg!(target_arch = "x86_64");

/// What a new process runs, on its own stack; it does not return.
pub(super) type Entry = extern "C" fn(*mut c_void) -> c_int;

/// Makes a system call.
///
/// # Safety
/// What the arguments refer to must be what that call takes.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn call(number: c_long, arguments: [usize; 4]) -> Result<usize, Errno> {
    let [first, second, third, fourth] = arguments;
    let answer: isize;
    // SAFETY: as the caller promises; the kernel changes no other registers.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    understood(answer)
}

/// clone(2): starts a process at `entry` on the stack that ends at `stack`. With `CLONE_CHILD_CLEARTID`, the kernel
/// sets `inside` to zero when it has left our memory.
///
/// # Safety
/// The stack and what `given` refers to must be left alone until the process has left our memory, and `entry` must
/// be fit to run there.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn clone(
    flags: c_int,
    stack: *mut u8,
    inside: &AtomicI32,
    entry: Entry,
    given: *mut c_void,
) -> Result<usize, Errno> {
    let answer: isize;
    // SAFETY: as the caller promises; the new process has all registers but the answer and the stack, which it leaves
    // to `entry`, that never returns. The kernel does not look at the fifth and sixth argument.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r8",
            "call r9",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone as isize => answer,
            in("rdi") flags as isize,
            in("rsi") stack.map_addr(|top| top & !15),
            in("rdx") 0_usize,
            in("r10") inside.as_ptr(),
            in("r8") given,
            in("r9") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    understood(answer)
}

#[cfg(target_arch = "x86_64")]
fn understood(answer: isize) -> Result<usize, Errno> {
    usize::try_from(answer).map_err(|_| Errno::from_raw(i32::try_from(-answer).unwrap_or_default()))
}

/// Makes a system call, by way of libc.
///
/// # Safety
/// What the arguments refer to must be what that call takes.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn call(number: c_long, arguments: [usize; 4]) -> Result<usize, Errno> {
    let [first, second, third, fourth] = arguments;
    // SAFETY: as the caller promises.
    let answer = unsafe { libc::syscall(number, first, second, third, fourth) };
    Errno::result(answer).map(|answer| usize::try_from(answer).unwrap_or_default())
}

/// clone(2), by way of libc, without `CLONE_CHILD_CLEARTID`.
///
/// # Safety
/// As there.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn clone(
    flags: c_int,
    stack: *mut u8,
    _: &AtomicI32,
    entry: Entry,
    given: *mut c_void,
) -> Result<usize, Errno> {
    // SAFETY: as the caller promises.
    let answer = unsafe { libc::clone(entry, stack.cast(), flags, given) };
    Errno::result(answer).map(|pid| usize::try_from(pid).unwrap_or_default())
}
