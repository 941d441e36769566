"""The warm process: started once by `sandbox.Sandbox`, it forks one shut-in child for every answer.

Run as a program in an interpreter of its own, which gets it and its neighbours compiled (`sandbox.programs`), because
what a compiler leaves in memory would be handed down to every child; never imported. It loads the modules that
answers may need, shuts itself in as `confine` says, and then only forks and reaps: an answer's code and results go
over a socket of their own straight between the grading process and the child, so that nothing of one answer is ever
in the memory that a later child inherits.

Every page of it that a child touches is copied, which is most of what a child costs: so it holds few modules, and has
run a small program of its own, so that what the interpreter notes on first use is noted before the forks.

Control messages, one byte each: J and C (with a socket: fork a child that runs a job from it, or one that compiles
for as long as it is asked), T (how much CPU has it used?), R (kill and reap it), K (the same, and say how it ended).
EOF ends the process.
"""

import sys

sys.path.pop(0)  # where it was started

import _socket  # noqa: E402
import gc  # noqa: E402
import marshal  # noqa: E402
import os  # noqa: E402
import posix  # noqa: E402
import time  # noqa: E402

SIGKILL, CHILD_FD, DESCRIPTORS = 9, 3, 32
FORGET: list = []  # `forgetters`, once the modules are loaded
FORGET_AFTER: list = []  # the same for `forgetters_after`
# Of a child that answers share, set before any is forked:
ROOM = 0  # the largest block, in bytes, that it can have; still before the next answer, or it ends
LAST_RESORT = None  # `last_resort`
SPARE = 4 << 20  # bytes of memory beyond an answer's, for what this process and honest answers before it still hold
ModuleType = type(sys)


def load_neighbour(name: str):
    """A module of this folder, from the programs that came with this one."""
    module = ModuleType(f"_sandbox_{name}")
    exec(PROGRAMS[name], module.__dict__)  # noqa: F821 - a global that `sandbox.BOOTSTRAP` sets
    return module


confine, encode = load_neighbour("confine"), load_neighbour("encode")


def read_frame(descriptor: int) -> bytes:
    """One message: four bytes of length and so many bytes. Raises EOFError."""
    data = os.read(descriptor, 1 << 16)
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
        piece = os.read(descriptor, 1 << 20)
        if not piece:
            raise EOFError
        data += piece
    return data[4:]


def write_frame(descriptor: int, data: bytes, more: bytes = b"") -> None:
    """Send one message, and more that is framed already."""
    data = len(data).to_bytes(4, "little") + data + more
    while data:
        data = data[os.write(descriptor, data) :]


def preload(names) -> None:
    """Load what answers may import: once shut in, no module can be read from disk any more."""
    for name in names:
        try:
            __import__(name)
        except BaseException:  # noqa: BLE001 - a module that cannot be loaded here fails in the answer, by name
            continue


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
    if issubclass(kind, OSError) and error.errno in (1, 13, 30):  # EPERM, EACCES, EROFS
        return "forbidden", message
    return "exception", message


def compile_first(candidates: list):
    """(code, None) of the first candidate that is Python, or (None, message) of the first's fault."""
    fault = None
    for text in candidates:
        try:
            return compile(text, "answer.py", "exec", dont_inherit=True), None
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            fault = fault or f"{type(error).__name__}: {error}"[:300]
    return None, fault


def forgetters() -> list:
    """Functions that clear what the loaded modules keep of earlier calls and what later ones could tell or be given."""
    places = {"re": "purge", "urllib.parse": "clear_cache"}
    found = [getattr(sys.modules.get(module), name, None) for module, name in places.items()]
    found += getattr(sys.modules.get("typing"), "_cleanups", [])
    return [forget for forget in found if forget is not None]


def forgetters_after() -> list:
    """The same for what costs later calls some time: cleared when another answer comes, against what it leaves in
    memory. Names of encodings that are not known; patterns of dates; what was printed and is not written yet."""
    caches = {"encodings": "_cache", "_strptime": "_regex_cache"}
    found = [getattr(sys.modules.get(module), name, None) for module, name in caches.items()]
    return [sys.stdout.flush, *(cache.clear for cache in found if cache is not None)]


def last_resort():
    """The MemoryError that CPython raises for want of memory for another (from 3.12 on: always this one), or None.

    What it was raised in stays alive with it, and it is the same for all answers of a process.
    """
    raised: list = []
    while len(raised) < 40:
        try:
            bytes(1 << 62)
        except MemoryError as error:
            raised.append(error)
    return raised[-1] if raised[-1] is raised[-2] else None


def largest_block(most: int) -> int:
    """Bytes of the largest block that can be had, in whole MB up to so many."""
    for size in range(most, 0, -1):
        try:
            bytes(size << 20)
        except MemoryError:
            continue
        return size << 20
    return 0


def clear_up() -> bool:
    """Clear what an answer left behind; whether the next one finds the memory that this one found."""
    sys.modules.pop("answer", None)
    if LAST_RESORT is not None:
        LAST_RESORT.__traceback__ = LAST_RESORT.__context__ = LAST_RESORT.__cause__ = None
    for forget in FORGET_AFTER:
        forget()
    gc.collect()
    try:
        bytes(ROOM)
    except MemoryError:
        return False
    return True


def run_test(code, prelude, function: str, scope: str, call) -> bytes:
    """Run one test call in a fresh module: b"V" and its value's text, or b"E", the reason, a line end, the message."""
    for forget in FORGET:
        forget()
    try:
        module = ModuleType("answer")
        sys.modules["answer"] = module
        names = module.__dict__
        names["__file__"] = "answer.py"
        if scope == "function":
            local = {}
            exec(code, names, local)
            return b"V" + encode.encode(eval(call, names, local)).encode()
        exec(code, names)
        if prelude is not None:
            names, given = dict(names), {}
            exec(prelude, given)
            names.update({name: value for name, value in given.items() if name not in (function, "__builtins__")})
        return b"V" + encode.encode(eval(call, names)).encode()
    except BaseException as error:  # noqa: BLE001 - SystemExit too: the answer's own doing
        reason, message = describe_exception(error)
        return f"E{reason}\n{message}".encode("utf-8", "backslashreplace")


def run_next(code, prelude, function: str, scope: str, call, after_others: bool) -> bytes:
    """The same where other tests may have run in this process: what they left in rings of objects is not at its cost.
    To collect before each test takes a fifth of the time of all."""
    frame = run_test(code, prelude, function, scope, call)
    if after_others and frame.startswith(b"Ememory"):
        gc.collect()
        frame = run_test(code, prelude, function, scope, call)
    return frame


def run_job(system_call_filter) -> None:
    """Life of a child that runs answers: read a job, shut in, run the tests, send a frame each.

    A job that stays is of code that shares its process: its frames go together, and the next job may come.
    """
    leave, write = os._exit, write_frame
    job = marshal.loads(read_frame(CHILD_FD))
    if system_call_filter:
        system_call_filter.install()
    while True:
        code, calls, prelude, function, scope, chosen, stays = job
        code, calls, prelude = marshal.loads(code), marshal.loads(calls), marshal.loads(prelude)
        if not stays:
            for number in chosen:
                write(CHILD_FD, run_next(code, prelude, function, scope, calls[number], number != chosen[0]))
            leave(0)
        frames = []
        for number in chosen:  # a comprehension would be one frame more than others have
            frames.append(run_next(code, prelude, function, scope, calls[number], number != chosen[0]))
        frames[1:] = [len(frame).to_bytes(4, "little") + frame for frame in frames[1:]]
        write(CHILD_FD, frames[0], b"".join(frames[1:]))
        del job, code, calls, prelude, frames
        if not clear_up():
            leave(0)
        try:
            job = marshal.loads(read_frame(CHILD_FD))
        except EOFError:
            leave(0)


def compile_for_others(system_call_filter) -> None:
    """Life of the child that compiles: code comes as text and leaves as bytes; nothing of it is ever run here.

    A request is a list of (kind, texts); its reply a list of (tag, bytes): for kind "exec", the code of the first text
    that is Python, with S, A or T for the process that its tests may have (shared, the answer's, each test's), or F and
    why none is Python; for "eval" and "eval whole", T or F of all the texts together (`calls.compiled_call`).
    """
    process_for, compiled_call = sys.modules["_sandbox_plain"].process_for, sys.modules["_sandbox_calls"].compiled_call
    if system_call_filter:
        system_call_filter.install()
    while True:
        try:
            request = marshal.loads(read_frame(CHILD_FD))
        except EOFError:
            return
        reply = []
        for kind, texts in request:
            if kind == "exec":
                code, fault = compile_first(texts)
                tag = b"F" if code is None else process_for(code)[0].upper().encode()
                content = fault.encode("utf-8", "backslashreplace") if code is None else marshal.dumps(code)
            else:
                try:
                    tag, content = b"T", marshal.dumps([compiled_call(text, kind == "eval whole") for text in texts])
                except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                    tag, content = b"F", f"{type(error).__name__}: {error}"[:300].encode("utf-8", "backslashreplace")
            reply.append(tag + len(content).to_bytes(4, "little") + content)
        write_frame(CHILD_FD, b"".join(reply))


def child(life, connection: int, system_call_filter, level: str) -> None:
    if level == "limits":
        os.setsid()
    if level != "strict":  # there the end of this process is the end of its namespace
        confine.die_with_parent()
        confine.limit_threads()
    os.dup2(connection, CHILD_FD)
    os.closerange(CHILD_FD + 1, 2 * DESCRIPTORS)
    life(system_call_filter)


def empty_folder(path: str) -> None:
    """Remove whatever an answer left in the scratch folder; links are not followed."""
    for name in os.listdir(path):
        below = f"{path}/{name}"
        try:
            os.unlink(below)
        except (IsADirectoryError, PermissionError):
            empty_folder(below)
            os.rmdir(below)


def cpu_seconds_of(pid: int) -> float:
    """CPU time a running child has used so far, threads included."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def end(pid: int, own_session: bool) -> int:
    """Kill a child (with its session where it may have started processes), and reap it: its exit status."""
    for stop in (os.kill, os.killpg) if own_session else (os.kill,):
        try:
            stop(pid, SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    return os.waitpid(pid, 0)[1]


def receive(control: _socket.socket):
    """(message, descriptor or None) of the next control message; the message is empty at the end."""
    message, more, _, _ = control.recvmsg(1, 24)
    return message, int.from_bytes(more[0][2][:4], sys.byteorder) if more else None


def serve(control: _socket.socket, system_call_filter, level: str) -> None:
    """Fork a child for each J and C until EOF; one at a time."""
    lives = {b"J": run_job, b"C": compile_for_others}
    own_session = level == "limits"  # elsewhere the filter lets it start no process
    pid = None
    while True:
        message, connection = receive(control)
        if message in lives:
            pid = os.fork()
            if pid == 0:
                try:
                    child(lives[message], connection, system_call_filter, level)
                finally:
                    os._exit(1)
            os.close(connection)
        elif message == b"T":
            control.sendall(str(cpu_seconds_of(pid)).encode().ljust(24))
        else:
            status = None if pid is None else end(pid, own_session)
            pid = None
            if level == "strict" and os.listdir("."):
                empty_folder(".")
            if not message:
                return
            if message == b"K":
                control.sendall(str(status).encode().ljust(24))


def practise() -> None:
    """Run what every child runs, so that what is noted on first use is noted here, once."""
    code, call = PROGRAMS["practice"], PROGRAMS["practice_call"]  # noqa: F821
    code = marshal.loads(marshal.dumps(code))
    for _ in range(16):
        run_test(code, None, "f", "module", call)
    marshal.loads(marshal.dumps(("", [], b"", None, [1])))
    sys.modules.pop("answer", None)


def fill_gaps() -> list:
    """Objects in all free blocks of the memory pools (CPython), to be kept.

    A child's own objects then lie together in fresh pools, and not one by one between older objects, whose pages
    would be copied.
    """
    if not hasattr(sys, "_debugmallocstats"):
        return []
    ours, theirs = os.pipe()
    standard_error = os.dup(2)
    os.dup2(theirs, 2)
    sys._debugmallocstats()
    os.dup2(standard_error, 2)
    for descriptor in (theirs, standard_error):
        os.close(descriptor)
    table = os.read(ours, 1 << 16).decode("ascii", "replace")
    os.close(ours)
    kept = []
    for line in table.splitlines():
        row = line.split()
        if len(row) == 5 and all(map(str.isdigit, row)):
            size, free = int(row[1]), int(row[4])
            if size >= 48:
                kept.append([bytes(size - 33) for _ in range(free)])
            elif size == 32:
                kept.append([float(number) for number in range(free)])
            else:
                kept.append([object() for _ in range(free)])
    return kept


def main() -> None:
    global ROOM, LAST_RESORT
    number = int(sys.argv[1])
    if number >= DESCRIPTORS:  # a child closes those below
        number = os.dup2(number, DESCRIPTORS - 1)
        os.close(int(sys.argv[1]))
    control = _socket.socket(fileno=number)
    settings = marshal.loads(read_frame(control.fileno()))
    sys.argv[:] = [""]
    sys.orig_argv[:] = [""]
    own_path, sys.path[:] = sys.path[:], sys.path + settings["path"]
    preload(settings["modules"])
    if settings["compiles"]:
        for name in ("plain", "calls"):
            sys.modules[f"_sandbox_{name}"] = load_neighbour(name)
    sys.path[:] = own_path
    level, problem, system_call_filter = settings["level"], "", None
    try:
        if level != "limits":
            system_call_filter = confine.SystemCallFilter(files=level == "strict")
        confine.drop_root()
        address_bytes = confine.address_space() + (settings["memory_mb"] << 20) + SPARE
        if level == "strict":
            confine.enter_namespaces()
            confine.limit_threads()
        confine.limit_memory_and_files(address_bytes)
        if level != "limits":
            confine.drop_privileges()
    except OSError as error:
        problem = str(error) or "unknown"
    write_frame(control.fileno(), problem.encode())
    if problem:
        return
    os.environ.clear()
    posix.environ.clear()
    FORGET.extend(forgetters())
    FORGET_AFTER.extend(forgetters_after())
    LAST_RESORT = last_resort()
    practise()
    gc.collect()
    confine.give_back_free_memory()
    kept = fill_gaps()  # noqa: F841
    PROGRAMS.clear()  # noqa: F821
    ROOM = largest_block(settings["memory_mb"])
    gc.freeze()
    serve(control, system_call_filter, level)


if __name__ == "__main__":
    main()
    os._exit(0)
