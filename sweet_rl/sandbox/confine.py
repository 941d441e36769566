"""Confine this process: namespaces with a root of their own, resource limits, a system-call filter.

Loaded by the warm process (`warm.py`), which knows nothing of the package: standard library and ctypes only. The
docstring of the package says what the levels strict, seccomp and limits promise.
"""

import ctypes
import errno
import os
import resource
import struct
import sys

LEVELS = ("strict", "seccomp", "limits")
SCRATCH = "/scratch"
NOBODY = 65534

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_THREAD = 0x10000000, 0x20000000, 0x40000000, 0x00010000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
QUIET = MS_NOSUID | MS_NODEV | MS_NOEXEC
MNT_DETACH = 2
CAP_SYS_ADMIN = 1 << 21
PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 3, 4, 22, 38

# name: (x86_64, aarch64); -1 if the architecture has no such call.
PURE_CALLS = {
    "read": (0, 63), "write": (1, 64), "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226),
    "madvise": (28, 233), "brk": (12, 214), "mremap": (25, 216), "futex": (202, 98), "close": (3, 57),
    "fstat": (5, 80), "lseek": (8, 62), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67), "pwrite64": (18, 68),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, -1), "getrandom": (318, 278),
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "exit": (60, 93),
    "exit_group": (231, 94), "set_robust_list": (273, 99), "rseq": (334, 293),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "poll": (7, -1), "ppoll": (271, 73),
    "select": (23, -1), "pselect6": (270, 72), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_wait": (232, -1), "epoll_pwait": (281, 22), "eventfd2": (290, 19), "pipe": (22, -1),
    "pipe2": (293, 59), "dup": (32, 23), "dup2": (33, -1), "dup3": (292, 24), "sendto": (44, 206),
    "recvfrom": (45, 207), "getsockopt": (55, 209), "shutdown": (48, 210), "uname": (63, 160),
    "sysinfo": (99, 179), "getrusage": (98, 165), "times": (100, 153), "sched_getaffinity": (204, 123),
    "getcpu": (309, 168), "setitimer": (38, 103), "getitimer": (36, 102), "alarm": (37, -1),
}  # fmt: skip
# Added only at strict, where the root holds the interpreter's folders, read-only, and the scratch folder.
FILE_CALLS = {
    "openat": (257, 56), "open": (2, -1), "newfstatat": (262, 79), "stat": (4, -1), "lstat": (6, -1),
    "statx": (332, 291), "getdents64": (217, 61), "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50),
    "access": (21, -1), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, -1),
    "readlinkat": (267, 78), "mkdir": (83, -1), "mkdirat": (258, 34), "rmdir": (84, -1), "unlink": (87, -1),
    "unlinkat": (263, 35), "rename": (82, -1), "renameat": (264, 38), "renameat2": (316, 276),
    "ftruncate": (77, 46), "fsync": (74, 82), "fdatasync": (75, 83), "umask": (95, 166), "flock": (73, 32),
}  # fmt: skip
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 1030)  # duplicate, flags, record locks; no F_SETOWN
IOCTL_REQUESTS = (0x5401, 0x5421, 0x5450, 0x5451)  # is it a terminal, non-blocking, close-on-exec


class Unavailable(OSError):
    """This system does not offer the level; the text says which step failed."""


def _libc():
    return ctypes.CDLL(None, use_errno=True)


def _call(libc, name: str, *arguments) -> None:
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise Unavailable(code, f"{name}: {os.strerror(code)}")


def drop_root() -> None:
    """Become `nobody` if started by root, so that limits and file permissions hold."""
    if os.geteuid() != 0:
        return
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:
        return  # a container that maps only one user: nothing to drop to
    if sys.platform == "linux":
        _libc().prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or /proc/self/uid_map stays root's


def keep_folders_for_nobody(folders: list[str]) -> None:
    """If started by root, show folders below a new current folder, because `nobody` may not pass /root, for example.
    Without the right to do so, `nobody` sees what all may see."""
    if os.geteuid() == 0:
        try:
            libc = _libc()
            _call(libc, "unshare", CLONE_NEWNS)
            _show_folders(libc, folders)
        except OSError:
            return


def enter_namespaces(folders: list[str]) -> None:
    """Enter new namespaces and fork pid 1 of the new pid namespace. Returns in that process only: the calling process
    waits for it and exits with its status.

    Args:
        folders: absolute paths, below the current folder, of what can be read afterwards, at the same paths.

    Raises:
        Unavailable: the system forbids it. The process is then half confined and must end.
    """
    if sys.platform != "linux":
        raise Unavailable(errno.ENOSYS, "namespaces: not Linux")
    libc, user, group = _libc(), os.geteuid(), os.getegid()
    _call(
        libc,
        "unshare",
        CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
    )
    for path, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{path}", "w") as file:
            file.write(text)
    child = os.fork()
    if child:
        os.closerange(3, 256)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    die_with_parent()
    _enter_new_root(libc, folders)
    libc.sethostname(b"sandbox", 7)


def _enter_new_root(libc, folders: list[str]) -> None:
    """Replace the root by a read-only tmpfs with the folders and a small writable one, and unmount the old root."""
    _show_folders(libc, folders)
    os.mkdir(SCRATCH[1:])
    _call(libc, "pivot_root", b".", b".")
    _call(libc, "umount2", b".", MNT_DETACH)
    os.chdir("/")
    _call(libc, "mount", b"none", b"/", None, ctypes.c_ulong(MS_REMOUNT | MS_RDONLY | QUIET), None)
    _mount_scratch(libc)


def _show_folders(libc, folders: list[str]) -> None:
    """Change to a new tmpfs where the folders are, read-only, at their paths; those that cannot be had are left out."""
    _call(libc, "mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    descriptors: dict[str, int] = {}
    for path in sorted(folders):  # opened before the tmpfs covers some of them
        if path.startswith(tuple(f"{outer}/" for outer in descriptors)):
            continue
        try:
            descriptors[path] = os.open(f".{path}", os.O_PATH | os.O_DIRECTORY)
        except OSError:
            continue
    base = b"/tmp" if os.path.isdir("/tmp") else b"/dev"
    _call(libc, "mount", b"tmpfs", base, b"tmpfs", ctypes.c_ulong(QUIET), b"size=64k,nr_inodes=4k,mode=755")
    os.chdir(base)
    os.umask(0o022)
    for path, descriptor in descriptors.items():
        os.makedirs(f".{path}", exist_ok=True)
        _bind_read_only(libc, b"/proc/self/fd/%d" % descriptor, os.fsencode(f".{path}"))
        os.close(descriptor)


def _bind_read_only(libc, source: bytes, target: bytes) -> None:
    """Show a folder at `target`, without what is mounted below it; if it cannot be made read-only, not at all."""
    if libc.mount(source, target, None, ctypes.c_ulong(MS_BIND), None) != 0:
        return
    kept = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | os.statvfs(target).f_flag & MS_NOEXEC
    if libc.mount(None, target, None, ctypes.c_ulong(kept), None) != 0:
        _call(libc, "umount2", target, MNT_DETACH)


def _mount_scratch(libc) -> None:
    options = b"size=16m,nr_inodes=512,mode=777"
    _call(libc, "mount", b"tmpfs", SCRATCH.encode(), b"tmpfs", ctypes.c_ulong(QUIET), options)
    os.chdir(SCRATCH)


def renew_scratch() -> None:
    """Replace the scratch folder by an empty one. What an answer left there is neither read nor walked: no name, mode
    or depth of it matters. Only for a process without children."""
    libc = _libc()
    os.chdir("/")
    _call(libc, "umount2", SCRATCH.encode(), MNT_DETACH)
    _mount_scratch(libc)


def die_with_parent() -> None:
    """On Linux, have this process killed when its parent ends."""
    if sys.platform == "linux":
        _libc().prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)


def address_space() -> int:
    """Bytes of address space that this process has now; 0 if the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def limit_memory_and_files(address_bytes: int) -> None:
    """Hard limits on address space (Linux), file size, open files and core files, for this process and its children.

    CPU seconds are not limited here: the grading process counts them per test and kills the child.
    """
    for kind, value in ((resource.RLIMIT_FSIZE, 16 << 20), (resource.RLIMIT_NOFILE, 32), (resource.RLIMIT_CORE, 0)):
        _limit(kind, value)
    if sys.platform == "linux":
        _limit(resource.RLIMIT_AS, address_bytes)


def limit_threads(others: int = 0) -> None:
    """A hard limit of 64 threads beside `others`. The kernel counts all threads of the user in the user namespace:
    without a namespace of its own, only a child may set it, and `others` are those of `threads_of_user`."""
    _limit(resource.RLIMIT_NPROC, 64 + others)


def threads_of_user() -> int:
    """Threads of all processes of this user; 0 if the system does not tell. A few milliseconds."""
    user, count = b"\nUid:\t%d\t" % os.getuid(), 0
    try:
        names = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return 0
    for name in names:
        try:
            with open(f"/proc/{name}/status", "rb") as file:  # a name in it may hold any byte
                status = file.read()
        except OSError:  # it has ended
            continue
        if user in status:
            count += int(status.partition(b"\nThreads:\t")[2].partition(b"\n")[0])
    return count


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _capabilities(kept: int):
    """The arguments of capset that leave a process only the capabilities `kept`."""
    header, sets = struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", kept, kept, 0, 0, 0, 0)
    return ctypes.create_string_buffer(header, 8), ctypes.create_string_buffer(sets, 24)


def drop_privileges(mounts: bool) -> None:
    """Drop every capability for good, but for the one to renew the scratch folder if `mounts`: no later call gives this
    process or its children more."""
    libc = _libc()
    _call(libc, "capset", *_capabilities(CAP_SYS_ADMIN if mounts else 0))
    _call(libc, "prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


class SystemCallFilter:
    """A seccomp filter that allows a list of system calls and answers EPERM to every other.

    Built once in the warm process; `install()` in a child holds until the child ends.

    Args:
        files: whether calls that take a path are allowed, which is safe only inside the new root.

    Raises:
        Unavailable: there is no filter for this system or processor.
    """

    def __init__(self, files: bool):
        machines = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
        machine = os.uname().machine
        if sys.platform != "linux" or machine not in machines:
            raise Unavailable(errno.ENOSYS, f"seccomp: no filter for {sys.platform} on {machine}")
        self._column, architecture = machines[machine]
        program = self._program(architecture, files)
        self._buffer = ctypes.create_string_buffer(program, len(program))

        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

        self._struct = Program(len(program) // 8, ctypes.addressof(self._buffer))
        self._address = ctypes.addressof(self._struct)
        # Called once here, so that a child finds the functions resolved.
        libc = ctypes.PyDLL(None, use_errno=True)
        self._prctl, self._capset, self._none = libc.prctl, libc.capset, _capabilities(0)
        self._prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
        self._prctl(PR_GET_DUMPABLE, 0, None, 0, 0)

    def _program(self, architecture: int, files: bool) -> bytes:
        """The filter in classic BPF: checks of the arguments of a few calls, then one bit per call in words of 32 bits.
        The kernel translates it for each child, so it is kept short."""
        load, equal, at_least, give, both = 0x20, 0x15, 0x35, 0x06, 0x54
        to_index, one, shift, any_bit = 0x07, 0x00, 0x6C, 0x45
        allow, refuse = (give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050000 | errno.EPERM)
        calls = {**PURE_CALLS, **(FILE_CALLS if files else {})}
        allowed = {numbers[self._column] for numbers in calls.values()} - {-1}
        lines = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, 0x80000000), (load, 0, 0, 0)]

        def when(call, argument, values, mask=0xFFFFFFFF):
            """Allow `call` only if its argument (low 32 bits, masked) is one of `values`."""
            body = [(load, 0, 0, 16 + 8 * argument), (both, 0, 0, mask)]
            for value in values:
                body += [(equal, 0, 1, value), allow]
            lines.extend([(equal, 0, len(body) + 1, call[self._column]), *body, refuse])

        namespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
        when((56, 220), 0, [CLONE_THREAD], CLONE_THREAD | namespaces)  # clone: threads only
        when((72, 25), 1, FCNTL_COMMANDS)
        when((16, 29), 1, IOCTL_REQUESTS)
        when((302, 261), 0, [0])  # prlimit64: of itself only
        # socketpair: of family AF_UNIX, and streams only (what an event loop needs)
        streams = [(load, 0, 0, 24), (both, 0, 0, 0xF), (equal, 0, 1, 1), allow]
        streams = [(load, 0, 0, 16), (equal, 0, len(streams), 1), *streams, refuse]
        lines += [(equal, 0, len(streams), (53, 199)[self._column]), *streams]
        # sched_yield: succeeds and does nothing, so that no process can wait for a CPU on purpose
        lines += [(equal, 0, 1, (24, 124)[self._column]), (give, 0, 0, 0x00050000)]
        lines += [(equal, 0, 1, 435), (give, 0, 0, 0x00050000 | errno.ENOSYS)]  # clone3: let libc fall back to clone
        words = {number // 32: 0 for number in allowed}
        for number in allowed:
            words[number // 32] |= 1 << number % 32
        for word, bits in sorted(words.items()):
            check = [(both, 0, 0, 31), (to_index, 0, 0, 0), (one, 0, 0, 1), (shift, 0, 0, 0), (any_bit, 0, 1, bits)]
            lines += [(at_least, 0, len(check) + 3, 32 * word), (at_least, len(check) + 2, 0, 32 * word + 32)]
            lines += [*check, allow, refuse]
        return b"".join(struct.pack("=HBBI", *line) for line in [*lines, refuse])

    def install(self) -> None:
        """Drop the last capability and apply the filter to this process, for good. Needs `drop_privileges`.

        Raises:
            Unavailable: the system refuses.
        """
        if self._capset(*self._none) != 0:
            raise Unavailable(ctypes.get_errno(), "capset")
        if self._prctl(PR_SET_SECCOMP, 2, self._address, 0, 0) != 0:
            raise Unavailable(ctypes.get_errno(), "seccomp")
