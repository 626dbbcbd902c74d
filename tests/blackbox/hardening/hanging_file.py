"""A file system that hangs.

serve FOLDER: mounts one over the folder whose only file takes whatever is written into its pages and never says that it has kept it.
map FILE:     leaves a process behind that hangs while the kernel maps that file for it, so that nobody can read its memory.
"""

import ctypes
import mmap
import os
import signal
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)

# Requests of linux/fuse.h.
LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE, INIT, OPENDIR, INTERRUPT = 1, 2, 3, 14, 15, 16, 26, 27, 36
DIRECT_IO, KEEP_CACHE = 1, 2


def attributes(inode, mode, size):
    return struct.pack("<QQQQQQIIIIIIIIII", inode, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


FOLDER, FILE = attributes(1, 0o40755, 0), attributes(2, 0o100644, 1 << 20)


def answer(request, opened):
    """The answer to a request: an error, and a body; None if there is none."""
    kind, node = struct.unpack_from("<4xI8xQ", request)
    if kind == INIT:
        return 0, struct.pack("<IIIIHHI", 7, 31, 65536, 0, 12, 9, 65536).ljust(64, b"\0")
    if kind == LOOKUP:
        return 0, struct.pack("<QQQQII", 2, 0, 100, 100, 0, 0) + FILE
    if kind == GETATTR:
        return 0, struct.pack("<QII", 100, 0, 0) + (FOLDER if node == 1 else FILE)
    if kind in (OPEN, OPENDIR):
        opened.append(node)
        # To map the file once more, past its pages, the kernel must first write these.
        past_pages = opened.count(2) == 2
        return 0, struct.pack("<QII", len(opened), KEEP_CACHE | (DIRECT_IO if past_pages else 0), 0)
    if kind == READ:
        return 0, bytes(struct.unpack_from("<16xI", request, 40)[0])
    if kind in (WRITE, FORGET, INTERRUPT):
        return None
    return -38, b""  # ENOSYS


def serve(folder):
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"hanging", folder.encode(), b"fuse", 0, options) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    # Whoever reads the memory of the other process hangs, too: also a test that fails and looks for what it has started.
    signal.alarm(60)
    opened = []
    while True:
        request = os.read(device, 1 << 20)
        reply = answer(request, opened)
        if reply:
            error, body = reply
            os.write(device, struct.pack("<Ii8s", 16 + len(body), error, request[8:16]) + body)


def hang(file):
    os.setsid()
    first = os.open(file, os.O_RDWR)
    pages = mmap.mmap(first, 4096)
    pages[0] = 1
    mmap.mmap(os.open(file, os.O_RDONLY), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
    sys.exit("it did not hang")


def leave_behind(file):
    child = os.fork()
    if child == 0:
        hang(file)
    while open(f"/proc/{child}/stat").read().rsplit(") ")[1][0] != "D":
        time.sleep(0.01)


{"serve": serve, "map": leave_behind}[sys.argv[1]](sys.argv[2])
