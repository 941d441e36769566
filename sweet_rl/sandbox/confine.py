"""Confine this process for good: no file, no network, no other process, little memory. Linux on x86_64 and aarch64.

Loaded by the fork server (`fork_server.py`), which knows nothing of the package: standard library only.
"""

import ctypes
import errno
import os
import resource
import struct
import sys

NOBODY = 65534
OPEN_FILES = 32
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the tables, number for the kernel
# The calls that are allowed; none takes a path or an address, none starts a process or a thread.
# name: (x86_64, aarch64); -1: there is no such call.
CALLS = {
    "read": (0, 63), "write": (1, 64), "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226),
    "madvise": (28, 233), "brk": (12, 214), "mremap": (25, 216), "futex": (202, 98), "close": (3, 57),
    "fstat": (5, 80), "lseek": (8, 62), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67), "pwrite64": (18, 68),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, -1), "getrandom": (318, 278),
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "exit": (60, 93),
    "exit_group": (231, 94), "sched_yield": (24, 124), "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    "uname": (63, 160), "sysinfo": (99, 179), "getrusage": (98, 165), "times": (100, 153),
    "sched_getaffinity": (204, 123), "getcpu": (309, 168), "setitimer": (38, 103), "getitimer": (36, 102),
    "alarm": (37, -1), "getcwd": (79, 17),
}  # fmt: skip
# Calls that look for a file find none (ENOENT), which honest code expects of a file that may be missing.
NO_FILE_CALLS = {
    "open": (2, -1), "openat": (257, 56), "stat": (4, -1), "lstat": (6, -1), "newfstatat": (262, 79),
    "statx": (332, 291), "access": (21, -1), "faccessat": (269, 48), "faccessat2": (439, 439),
}  # fmt: skip
LOAD, JUMP, EQUAL, RETURN = 0x20, 0x05, 0x15, 0x06  # classic BPF
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SIGKILL = 1, 22, 38, 9


def filter_program(machine: str) -> bytes:
    """The system-call filter in classic BPF: a call that the tables do not allow fails with EPERM."""
    column, architecture = MACHINES[machine]
    lines = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    for table, verdict in ((CALLS, ALLOW), (NO_FILE_CALLS, FAIL | errno.ENOENT)):
        listed = [row[column] for row in table.values() if row[column] >= 0]
        lines += [(EQUAL, len(listed) - place, 0, number) for place, number in enumerate(listed)]
        lines += [(JUMP, 0, 0, 1), (RETURN, 0, 0, verdict)]
    lines.append((RETURN, 0, 0, FAIL | errno.EPERM))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def prepare(memory_mb: int):
    """Drop root and limit memory, files and privileges of this process and its children.

    Returns:
        The function that a child calls once: from then on it dies with its parent, and the filter holds.

    Raises:
        OSError: The system refuses, or there is no filter for it.
    """
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"there is no system-call filter for {sys.platform} on {machine}")
    with open("/proc/self/statm") as file:
        address_space = int(file.read().split()[0]) * resource.getpagesize() + (memory_mb << 20)
    _drop_root()
    for kind, most in (
        (resource.RLIMIT_AS, address_space),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    program = filter_program(machine)
    code = ctypes.create_string_buffer(program, len(program))
    pointer = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    argument = ctypes.create_string_buffer(pointer, len(pointer))
    prctl = ctypes.PyDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    if prctl(PR_SET_NO_NEW_PRIVS, 1, None, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs is refused")

    def install(kept=code) -> None:  # `argument` holds its address only
        prctl(PR_SET_PDEATHSIG, SIGKILL, None, 0, 0)
        if prctl(PR_SET_SECCOMP, 2, ctypes.addressof(argument), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "seccomp is refused")

    return install


def _drop_root() -> None:
    """Become `nobody` if started by root, which drops the capabilities too."""
    if os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        except OSError:  # a container that maps only one user
            return
