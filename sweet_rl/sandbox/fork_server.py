"""The fork server: started once by `sandbox.Sandbox`, it forks one confined child for each answer.

A program of its own, never imported. It loads the modules that answers need and confines itself (`confine.py`); then
it only forks and reaps. It never sees an answer: text and results go over a socket between the grading process and the
child, so nothing of one answer is in the memory that a later child inherits.
"""

import _socket
import gc
import marshal
import os
import resource
import site
import sys
import unicodedata  # noqa: F401 - what `compile` needs for a name that is not ASCII

import confine
import encode
import warm_up

CONNECTION = 3  # descriptor: of a child, its socket; of the server, the control socket
ModuleType = type(sys)


# ------------------------------------------------------------------------------------------------------ the child


def run_job(loaded: list[dict]) -> None:
    """Life of a child: read the job of one answer, run its tests, write a line for each, exit.

    It exits before the last test, and a new child runs the others, if a test left names in the `loaded` modules or had
    not enough memory after others. That keeps the tests of honest code apart; it is no wall between tests.
    """
    leave, write = os._exit, os.write
    texts, tests, own, scope, first = marshal.loads(b"".join(iter(lambda: os.read(CONNECTION, 1 << 16), b"")))
    calls, prelude = marshal.loads(tests)
    sizes = [*map(len, loaded)]
    faults: list[str] = []
    codes = compiled(texts, faults)
    code = next(codes, None)
    for number in range(first, len(calls)):
        line, lacks_name = (faults[0], False) if code is None else run_test(code, prelude, own, scope, calls[number])
        while lacks_name and (other := next(codes, None)) is not None:
            code = other
            line, lacks_name = run_test(code, prelude, own, scope, calls[number])
        if number > first and line.startswith('E"memory"'):
            leave(0)
        data = line.encode() + b"\n"
        while data:
            data = data[write(CONNECTION, data) :]
        if [*map(len, loaded)] != sizes:
            break
    leave(0)


def compiled(texts: list[str], faults: list[str]):
    """Yield the code of each text that is Python. The lines of the others are added to `faults`."""
    for text in texts:
        try:
            yield compile(text, "answer.py", "exec", dont_inherit=True)
        except Exception as error:  # noqa: BLE001 - also a MemoryError or RecursionError
            faults.append(failure("syntax error", error))


def run_test(code, prelude, own: list, scope: str, call) -> tuple[str, bool]:
    """Run the call of a test in a fresh module.

    Returns:
        The line of the test: V and the text of the value, or E, the reason and the message. Then whether the module
        could not be loaded for want of a name.
    """
    loaded = scope == "function"
    try:
        module = sys.modules["answer"] = ModuleType("answer")
        names = module.__dict__
        names["__file__"] = "answer.py"
        if scope == "function":
            local: dict = {}
            exec(code, names, local)
            return "V" + encode.encode(eval(call, names, local)), False
        exec(code, names)
        loaded = True
        if prelude is not None:
            given: dict = {}
            exec(prelude, given)
            names = names | {name: value for name, value in given.items() if name not in (*own, "__builtins__")}
        return "V" + encode.encode(eval(call, names)), False
    except BaseException as error:  # noqa: BLE001 - an answer may raise SystemExit and KeyboardInterrupt too
        return failure(reason_of(error), error), not loaded and isinstance(error, NameError)


def reason_of(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, encode.Unserialisable):
        return "unserialisable"
    if isinstance(error, ModuleNotFoundError):
        return "missing module"
    if isinstance(error, OSError) and error.errno in (1, 2, 13):  # EPERM, ENOENT, EACCES
        return "forbidden"
    if isinstance(error, RuntimeError) and error.args == ("can't start new thread",):
        return "forbidden"
    return "exception"


def failure(reason: str, error: BaseException) -> str:
    try:
        text = str(error)[:300]
    except BaseException:  # noqa: BLE001 - an exception whose text raises is still an exception
        text = ""
    message = text if reason == "unserialisable" else f"{type(error).__name__}: {text}"
    return f"E{encode.quote(reason)},{encode.quote(message[:300])}"


# --------------------------------------------------------------------------------------------------- the server


def start_child(connection: int, install, cpu_seconds: int, loaded: list[dict]) -> None:
    """Keep one descriptor above 2, the socket of this child; send the process id, and run the job."""
    os.dup2(connection, CONNECTION)
    os.closerange(CONNECTION + 1, 2 * confine.OPEN_FILES)
    if install is None:  # --sandbox none
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    os.write(CONNECTION, b"%10d" % os.getpid())
    if install is not None:
        install()
    run_job(loaded)


def serve(control: _socket.socket, install, cpu_seconds: int) -> None:
    """Fork a child for each message, which carries the child's socket, until EOF."""
    loaded = [module.__dict__ for module in list(sys.modules.values()) if type(module) is ModuleType]
    child = 0
    while True:
        message, sent, _, _ = control.recvmsg(1, 24)
        if not message:
            return
        connection = int.from_bytes(sent[0][2][:4], sys.byteorder)
        before, child = child, os.fork()
        if child == 0:
            try:
                start_child(connection, install, cpu_seconds, loaded)
            finally:
                os._exit(1)
        os.close(connection)
        if before:
            os.waitpid(before, 0)  # the grading process has killed it


def main() -> None:
    settings = marshal.load(sys.stdin.buffer)
    number = int(sys.argv[1])
    if number != CONNECTION:  # a child closes the descriptors that follow it
        os.dup2(number, CONNECTION)
        os.close(number)
    control = _socket.socket(fileno=CONNECTION)
    sys.argv[:] = sys.orig_argv[:] = [""]
    del sys.path[0], sys.modules["confine"], sys.modules["encode"], sys.modules["warm_up"]  # this folder
    sys.path += settings["path"]
    warm_up.load(settings["modules"])
    site.setquit()
    site.sethelper()
    install = None
    if settings["level"] != "none":
        try:
            install = confine.prepare(settings["memory_mb"])
        except OSError as error:
            control.sendall(str(error).encode())
            return
    control.sendall(b"ready")
    gc.collect()
    gc.freeze()
    serve(control, install, settings["cpu_seconds"])


if __name__ == "__main__":
    main()
    os._exit(0)
