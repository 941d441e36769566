"""The warm process: started once by `sandbox.Sandbox`, it forks one confined child for every answer.

A program of its own, never imported. It loads the modules that answers may need, confines itself with `confine.py`,
and then only forks and reaps. It never sees an answer: text and results go over a socket of their own between the
grading process and the child, so nothing of one answer is in the memory that a later child inherits.

Control messages of one byte: J (with a socket: fork a child that runs the job it reads there), T (reply the CPU
seconds of the child), K (kill and reap it, clear up after it, then reply its wait status). EOF ends this process.
"""

import _socket
import _thread
import ctypes
import gc
import marshal
import os
import posix
import site
import sys
import time
import unicodedata  # noqa: F401 - what `compile` needs for a name that is not ASCII

import confine
import encode

SIGKILL, CHILD_FD, DESCRIPTORS = 9, 3, 32
STACK_BYTES = 1 << 21  # of a thread, so that 64 fit into the memory of an answer; the system's 8 MB do not
ModuleType = type(sys)


def read_frame(descriptor: int) -> bytes:
    """One message: four bytes of length and that many bytes. Raises EOFError."""
    data = os.read(descriptor, 1 << 16)
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
        piece = os.read(descriptor, 1 << 20)
        if not piece:
            raise EOFError
        data += piece
    return data[4:]


def write_frame(descriptor: int, data: bytes) -> None:
    data = len(data).to_bytes(4, "little") + data
    while data:
        data = data[os.write(descriptor, data) :]


# ------------------------------------------------------------------------------------------------------ the child


def run_job(system_call_filter, level: str, trace_dicts: list[dict]) -> None:
    """Life of a child: read the job of one answer, run its tests, send a frame for each, exit.

    The child exits early, and the tests that are left get a new child, if a test left traces that the next one
    could see (`Traces`) or had not enough memory after other tests. That keeps the tests of honest code apart. It
    is no guarantee: an answer can pass notes from one of its tests to the next.
    """
    leave, write = os._exit, write_frame
    texts, tests, own, scope, first = marshal.loads(read_frame(CHILD_FD))
    if system_call_filter:
        system_call_filter.install()
    calls, prelude = marshal.loads(tests)
    traces = Traces(trace_dicts, scratch_folder=level == "strict")
    faults: list[bytes] = []
    codes = compiled(texts, faults)
    code = next(codes, None)
    for number in range(first, len(calls)):
        frame, loaded = (faults[0], True) if code is None else run_test(code, prelude, own, scope, calls[number])
        while not loaded and (other := next(codes, None)) is not None:
            code = other
            frame, loaded = run_test(code, prelude, own, scope, calls[number])
        if number > first and frame.startswith(b"Ememory"):
            leave(0)
        write(CHILD_FD, frame)
        if traces.found():
            break
    leave(0)


class Traces:
    """Detects what tests of honest code leave behind: files in the scratch folder, names added to the modules that the
    warm process loaded, but for the names of submodules that a test imported."""

    def __init__(self, dicts: list[dict], scratch_folder: bool):
        self._dicts, self._sizes = dicts, [*map(len, dicts)]
        self._modules, self._loaded = sys.modules, len(sys.modules)
        self._listdir = posix.listdir if scratch_folder else None  # kept here, because an answer may replace it

    def found(self) -> bool:
        sizes = [*map(len, self._dicts)]
        if sizes != self._sizes and sizes != self._sizes_with_submodules():
            return True
        return self._listdir is not None and bool(self._listdir("."))

    def _sizes_with_submodules(self) -> list[int]:
        packages = [name.rpartition(".")[0] for name in [*self._modules][self._loaded :]]
        return [size + packages.count(names["__name__"]) for names, size in zip(self._dicts, self._sizes, strict=True)]


def compiled(texts: list[str], faults: list[bytes]):
    """Yield the code of each text that is Python. Frames that name the faults of the others are added to `faults`."""
    for text in texts:
        try:
            yield compile(text, "answer.py", "exec", dont_inherit=True)
        except Exception as error:  # noqa: BLE001 - also an ImportError, of a module that names need
            fault = f"Esyntax error\n{type(error).__name__}: {error}"[:300]
            faults.append(fault.encode("utf-8", "backslashreplace"))


def run_test(code, prelude, own: list, scope: str, call) -> tuple[bytes, bool]:
    """Run the call of a test in a fresh module: b"V" and the text of the value, or b"E", the reason, a line end, the
    message. The second value is False if the module cannot be loaded for want of a name."""
    loaded = scope == "function"
    try:
        module = ModuleType("answer")
        sys.modules["answer"] = module
        names = module.__dict__
        names["__file__"] = "answer.py"
        if scope == "function":
            local: dict = {}
            exec(code, names, local)
            return b"V" + encode.encode(eval(call, names, local)).encode(), True
        exec(code, names)
        loaded = True
        if prelude is not None:
            names = dict(names)
            given: dict = {}
            exec(prelude, given)
            names.update({name: value for name, value in given.items() if name not in (*own, "__builtins__")})
        return b"V" + encode.encode(eval(call, names)).encode(), True
    except BaseException as error:  # noqa: BLE001 - an answer may raise SystemExit and KeyboardInterrupt too
        reason, message = describe_exception(error)
        return f"E{reason}\n{message}".encode("utf-8", "backslashreplace"), loaded or not isinstance(error, NameError)


def describe_exception(error: BaseException) -> tuple[str, str]:
    """(reason, message) of an exception that an answer raised."""
    kind = type(error)
    try:
        text = str(error)[:300]
    except BaseException:  # noqa: BLE001 - an exception whose text raises is still an exception
        text = ""
    message = f"{kind.__name__}: {text}"[:300]
    if issubclass(kind, MemoryError):
        return "memory", message
    if issubclass(kind, encode.Unserialisable):
        return "unserialisable", text
    if isinstance(error, OSError) and error.errno in (1, 13, 30):  # EPERM, EACCES, EROFS
        return "forbidden", message
    return "exception", message


# ---------------------------------------------------------------------------------------------- the warm process


def start_child(connection: int, system_call_filter, level: str, trace_dicts: list[dict], others: int) -> None:
    """The forked child keeps one descriptor above 2, its own socket, and confines itself before it runs its job."""
    if level == "limits":
        os.setsid()
    if level != "strict":  # at strict the end of the warm process ends its pid namespace
        confine.die_with_parent()
        confine.limit_threads(others)
    os.dup2(connection, CHILD_FD)
    os.closerange(CHILD_FD + 1, 2 * DESCRIPTORS)
    run_job(system_call_filter, level, trace_dicts)


def cpu_seconds_of(pid: int) -> float:
    """CPU seconds that a running child and its threads have used so far; 0 if the system does not tell."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def end(pid: int, own_session: bool) -> int:
    """Kill a child, with its session if it may have started processes, and reap it. Returns its wait status."""
    for stop in (os.kill, os.killpg) if own_session else (os.kill,):
        try:
            stop(pid, SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    return os.waitpid(pid, 0)[1]


def serve(control: _socket.socket, system_call_filter, level: str) -> None:
    """Obey control messages until EOF. There is at most one child."""
    trace_dicts = [module.__dict__ for module in list(sys.modules.values()) if type(module) is ModuleType]
    pid: int | None = None
    others, counted = 0, -1.0
    while True:
        message, more, _, _ = control.recvmsg(1, 24)
        if message == b"J":
            if level != "strict" and time.monotonic() > counted + 1:
                others, counted = confine.threads_of_user(), time.monotonic()
            connection = int.from_bytes(more[0][2][:4], sys.byteorder)
            pid = os.fork()
            if pid == 0:
                try:
                    start_child(connection, system_call_filter, level, trace_dicts, others)
                finally:
                    os._exit(1)
            os.close(connection)
        elif message == b"T" and pid is not None:
            control.sendall(str(cpu_seconds_of(pid)).encode().ljust(24))
        else:
            status = None if pid is None else end(pid, own_session=level == "limits")
            pid = None
            if not message:
                return
            if level == "strict" and os.listdir("."):
                confine.renew_scratch()
            if message == b"K":
                control.sendall(str(status).encode().ljust(24))


def preload(names) -> None:
    """Load modules and shared libraries."""
    for name in names:
        try:
            load = ctypes.CDLL if ".so." in name else __import__
            load(name)
        except BaseException:  # noqa: BLE001 - an answer that imports this module fails with the module's name
            continue


def keep_time_zones() -> None:
    """Let `zoneinfo` read the machine's time zones from memory, where no file can be read."""
    import io
    import zoneinfo

    files = {}
    for key in zoneinfo.available_timezones():
        try:
            path = zoneinfo._tzpath.find_tzfile(key)
            with zoneinfo._common.load_tzdata(key) if path is None else open(path, "rb") as file:
                files[key] = file.read()
        except (OSError, LookupError):  # a key without a file
            continue

    def load_tzdata(key: str):
        if key not in files:
            raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(files[key])

    zoneinfo._common.load_tzdata = load_tzdata
    zoneinfo.available_timezones = lambda: set(files)


def main() -> None:
    number = int(sys.argv[1])
    if number >= DESCRIPTORS:  # a child closes those below
        number = os.dup2(number, DESCRIPTORS - 1)
        os.close(int(sys.argv[1]))
    control = _socket.socket(fileno=number)
    settings = marshal.loads(read_frame(control.fileno()))
    sys.argv[:] = sys.orig_argv[:] = [""]
    del sys.path[0], sys.modules["confine"], sys.modules["encode"]  # this folder
    libraries = sys.path + settings["libraries"]
    folders = libraries + settings["time_zones"]
    sys.path += settings["path"]
    preload(settings["modules"])
    sys.path[:] = libraries
    site.setquit()
    site.sethelper()
    _thread.stack_size(STACK_BYTES)
    level, problem, system_call_filter = settings["level"], "", None
    if level == "seccomp" and "zoneinfo" in sys.modules:
        keep_time_zones()
    try:
        if level != "limits":
            system_call_filter = confine.SystemCallFilter(files=level == "strict")
        if level == "strict":
            confine.keep_folders_for_nobody(folders)
        confine.drop_root()
        address_bytes = confine.address_space() + (settings["memory_mb"] << 20)
        if level == "strict":
            confine.enter_namespaces(folders)
            confine.limit_threads()
        confine.limit_memory_and_files(address_bytes)
        if level != "limits":
            confine.drop_privileges(mounts=level == "strict")
    except OSError as error:
        problem = str(error) or "unknown"
    write_frame(control.fileno(), problem.encode())
    if problem:
        return
    constants = dict(posix.environ)  # for libraries that are loaded later; Python does not show them
    os.environ.clear()
    posix.environ.clear()
    for name, value in constants.items():
        posix.putenv(name, value)
    gc.collect()
    gc.freeze()
    serve(control, system_call_filter, level)


if __name__ == "__main__":
    main()
    os._exit(0)
