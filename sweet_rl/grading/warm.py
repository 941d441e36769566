"""The warm process: started once by `sandbox.Sandbox`, it forks one shut-in child for every answer.

Run as a program (`python -S -s warm.py CONTROL_FD`) in an interpreter of its own; never imported. It loads the
modules that answers may need, shuts itself in as `confine` says, and then only forks and reaps: an answer's text
and results go over a socket of their own straight between the grading process and the child, so that nothing
of one answer is ever in the memory that a later child inherits.

Control messages, one byte each: J (with a socket: fork a child for it), T (how much CPU has it used?), K (kill
and reap it). EOF ends the process.
"""

import sys

sys.path.pop(0)  # this folder: its statistics.py would stand before the standard library's

import gc  # noqa: E402
import importlib  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import resource  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import struct  # noqa: E402
import time  # noqa: E402
import types  # noqa: E402


def load_neighbour(name: str):
    """A module of this folder, loaded by its path."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    specification = importlib.util.spec_from_file_location(f"_sandbox_{name}", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


confine, values = load_neighbour("confine"), load_neighbour("values")


def receive(read, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = read(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def preload(names) -> None:
    """Load what answers may import: once shut in, no module can be read from disk any more."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - a module that cannot be loaded here fails in the answer, by name
            continue


def describe_exception(error: BaseException) -> list:
    """[reason, message] of an exception that an answer raised."""
    kind = type(error)
    try:
        text = str(error)[:300]
    except BaseException:  # noqa: BLE001 - an exception whose text raises is still an exception
        text = ""
    message = f"{kind.__name__}: {text}"[:300]
    if issubclass(kind, MemoryError):
        return ["memory", message]
    if issubclass(kind, values.Unserialisable):
        return ["unserialisable", text]
    if issubclass(kind, OSError) and error.errno in (1, 13, 30):  # EPERM, EACCES, EROFS
        return ["forbidden", message]
    return ["exception", message]


def compile_first(candidates: list):
    """(code, None) of the first candidate that is Python, or (None, [reason, message]) of the first's fault."""
    fault = None
    for text in candidates:
        try:
            return compile(text, "answer.py", "exec", dont_inherit=True), None
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            fault = fault or ["syntax error", f"{type(error).__name__}: {error}"[:300]]
    return None, fault


def run_test(code, prelude: str, function: str, call: str) -> list:
    """Run one test call in a fresh module; ["value", tree] or [reason, message]."""
    try:
        module = types.ModuleType("answer")
        sys.modules["answer"] = module
        exec(code, module.__dict__)
        names = dict(module.__dict__)
        if prelude:
            given = {}
            exec(prelude, given)
            names.update({name: value for name, value in given.items() if name not in (function, "__builtins__")})
        return ["value", values.encode(eval(call, names))]
    except BaseException as error:  # noqa: BLE001 - SystemExit too: the answer's own doing
        return describe_exception(error)


def child(connection: int, limits: dict, system_call_filter) -> None:
    """Life of one child: read the job, shut in, run the tests, send one frame a test."""
    write, leave, dumps, pack = os.write, os._exit, json.dumps, struct.pack

    def send(outcome: list) -> None:
        try:
            data = dumps(outcome).encode()
        except (ValueError, RecursionError, MemoryError) as error:
            data = dumps(["unserialisable", type(error).__name__]).encode()
        data = pack("=I", len(data)) + data
        while data:
            data = data[write(3, data) :]

    os.setsid()
    os.dup2(connection, 3)
    os.closerange(4, 64)
    (length,) = struct.unpack("=I", receive(lambda count: os.read(3, count), 4))
    job = json.loads(receive(lambda count: os.read(3, count), length))
    random.seed()
    confine.limit_resources(limits["address_bytes"], limits["cpu_seconds"])
    if system_call_filter:
        system_call_filter.install()
    code, fault = compile_first(job["candidates"])
    for call in job["tests"]:
        send(fault or run_test(code, job["prelude"], job["function"], call))
    leave(0)


def empty_scratch() -> None:
    """Remove whatever an answer left in the scratch folder (strict level only)."""
    for root, folders, files in os.walk(".", topdown=False):
        for name in files:
            os.unlink(os.path.join(root, name))
        for name in folders:
            path = os.path.join(root, name)
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)


def cpu_seconds_of(pid: int) -> float:
    """CPU time a running child has used so far, threads included."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def serve(control: socket.socket, limits: dict, system_call_filter, scratch: bool) -> None:
    """Fork a child for each J until EOF."""
    while True:
        message, sockets, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            try:
                child(sockets[0], limits, system_call_filter)
            finally:
                os._exit(1)
        os.close(sockets[0])
        while True:
            message = control.recv(1)
            if message != b"T":
                break
            control.sendall(struct.pack("=d", cpu_seconds_of(pid)))
        for stop in (os.kill, os.killpg):
            try:
                stop(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        _, status = os.waitpid(pid, 0)
        if scratch:
            empty_scratch()
        if not message:
            return
        control.sendall(struct.pack("=i", os.waitstatus_to_exitcode(status)))


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    (length,) = struct.unpack("=I", receive(control.recv, 4))
    settings = json.loads(receive(control.recv, length))
    sys.argv[:] = [""]
    sys.orig_argv[:] = [""]
    own_path, sys.path[:] = sys.path[:], sys.path + settings["path"]
    preload(settings["modules"])
    sys.path[:] = own_path
    level, problem, system_call_filter = settings["level"], None, None
    try:
        if level != "limits":
            system_call_filter = confine.SystemCallFilter(files=level == "strict")
        confine.drop_root()
        if level == "strict":
            limits_base = confine.address_space()
            confine.enter_namespaces()
        else:
            limits_base = confine.address_space()
    except OSError as error:
        problem = str(error)
    if problem is None:
        limits = {
            "address_bytes": limits_base + (settings["memory_mb"] << 20),
            "cpu_seconds": settings["cpu_seconds"],
        }
    text = json.dumps({"problem": problem}).encode()
    control.sendall(struct.pack("=I", len(text)) + text)
    if problem is not None:
        return
    os.environ.clear()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.collect()
    gc.freeze()
    serve(control, limits, system_call_filter, scratch=level == "strict")


if __name__ == "__main__":
    main()
    os._exit(0)
