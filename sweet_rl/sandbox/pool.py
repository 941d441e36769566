"""Warm processes of several kinds, kept for the next answer; a second try for an answer that the machine failed."""

import logging
import re
import threading
from collections import OrderedDict, defaultdict
from contextlib import contextmanager
from importlib.machinery import PathFinder

from sweet_rl.sandbox.encode import encode
from sweet_rl.sandbox.modules import ENCODINGS, EVERYTHING, KNOWN_PACKAGES, modules_for
from sweet_rl.sandbox.sandbox import Job, Outcome, Sandbox, SandboxUnavailable, pack_tests

logger = logging.getLogger(__name__)

ENDED = "ended"  # the warm process, while it ran a job; never returned
NO_ANSWER = Job([""], pack_tests([compile("0", "test", "eval")]), 1)
NO_MODULE = re.compile(r"No module named '([\w.]+)'")
NO_SUBMODULE = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
MAX_MORE_RUNS = 4  # each with the modules that the run before lacked
MAX_IMPORTS = 32  # of a job that are loaded before its process is confined, in time that is not the answer's
MAX_NAMES = 8  # of modules that a run may have lacked; an answer can write these messages itself
NOT_ON_DISK = "__import__('_frozen_importlib_external').PathFinder.find_spec({!r}) is None"
ON_DISK = ("value", encode(False).encode())
NO_ENCODING = "LookupError: unknown encoding"
LACKS_A_MODULE = ("ModuleNotFoundError", "ImportError", NO_ENCODING)


class Pool:
    """Runs jobs in warm processes. Several threads may use it at the same time.

    Args:
        level, timeout, memory_mb: see `Sandbox`.
        workers: jobs that will run at the same time.
    """

    def __init__(self, level: str, timeout: float, memory_mb: int, workers: int):
        self.level, self._timeout, self._memory_mb, self._workers = level, timeout, memory_mb, workers
        self._idle: OrderedDict[tuple, list[Sandbox]] = OrderedDict()
        self._not_loaded: dict[tuple, tuple] = {}  # modules that cannot be loaded together -> those to load instead
        self._lock = threading.Lock()
        self._turns = _Turns()
        # Each reference runs in processes of at least two kinds. At most half as many as there are cores run per kind:
        # to wait costs less than to start another warm process.
        self._reference_turns: defaultdict[tuple, threading.Semaphore] = defaultdict(
            lambda: threading.Semaphore(max(1, workers // 4))
        )
        self._closed = False

    def run(self, role: str, seed: int, job: Job, imports: set[str]) -> list[Outcome]:
        """Run a job in a process that holds what its texts import; if that lacks a module, again with that module.

        If the machine fails the job, or its warm process ends, it is run again in a new process while no other job
        runs. A machine outcome of that second run is returned. If the process ends again, a job without an answer
        shows whose fault it is: if that one runs, the answer "exited", otherwise it is the machine's.

        Args:
            role: "reference" or "answer". Processes of one role never run jobs of another.
            seed: PYTHONHASHSEED of the process.
            job: code and tests.
            imports: names of modules that the texts and the prelude import.

        Returns:
            One outcome per test (`Sandbox.run`).
        """
        imports = {*sorted(imports)[:MAX_IMPORTS]}
        modules = modules_for(imports, "\n".join(job.texts))
        outcomes = self._run_or_retry((role, seed, modules), job)
        for _ in range(MAX_MORE_RUNS):
            lacking = [
                message
                for reason, message in outcomes
                if reason == "exception" and isinstance(message, str) and message.startswith(LACKS_A_MODULE)
            ]
            if not lacking:
                break
            named = [name for message in lacking for name in NO_MODULE.findall(message)]
            named += [f"{package}.{name}" for message in lacking for name, package in NO_SUBMODULE.findall(message)]
            named = [*dict.fromkeys(named)][:MAX_NAMES]
            if any(message.startswith(NO_ENCODING) for message in lacking):
                named += ENCODINGS
            imports = imports | {"os"} | self._not_on_disk((role, seed, modules), named)
            modules, before = modules_for(imports), modules
            if modules == before:
                break
            outcomes = self._run_or_retry((role, seed, modules), job)
        return outcomes

    def _not_on_disk(self, key: tuple, names: list[str]) -> set[str]:
        """Return the names of modules that are installed, but in packages that a process of this kind cannot read.

        All others were not lacking, whatever the messages of an answer say of them.
        """
        packages = sorted({name.partition(".")[0] for name in names} & KNOWN_PACKAGES)
        packages = [package for package in packages if PathFinder.find_spec(package)]
        if not packages:
            return set()
        tests = [compile(NOT_ON_DISK.format(package), "test", "eval") for package in packages]
        outcomes = self._run_or_retry(key, Job([""], pack_tests(tests), len(tests)))
        lacking = {package for package, outcome in zip(packages, outcomes, strict=True) if outcome != ON_DISK}
        return {name for name in names if name.partition(".")[0] in lacking}

    def _run_or_retry(self, key: tuple, job: Job) -> list[Outcome]:
        key = (*key[:2], self._not_loaded.get(key[2], key[2]))
        if key[0] == "reference":
            with self._lock:
                turn = self._reference_turns[key]
            with turn, self._turns.beside_others():
                outcomes = self._run_once(key, job)
        else:
            with self._turns.beside_others():
                outcomes = self._run_once(key, job)
        if any(reason in ("machine", ENDED) for reason, _ in outcomes):
            with self._turns.alone():
                outcomes = self._run_once(key, job, fresh=True)
                if outcomes[0][0] == ENDED:
                    ((reason, _),) = self._run_once(key, NO_ANSWER, fresh=True)
                    outcomes = [("exited" if reason == "value" else "machine", outcomes[0][1])] * job.count
        return outcomes

    def _run_once(self, key: tuple, job: Job, fresh: bool = False) -> list[Outcome]:
        try:
            sandbox = self._start(key) if fresh else self._take(key)
        except SandboxUnavailable as error:  # a module that was loaded keeps its process from confining itself
            more = set(key[2]) - set(EVERYTHING)
            if not more:
                raise
            logger.warning("%s Code that imports %s has none of these.", error, ", ".join(sorted(more)))
            self._not_loaded[key[2]] = EVERYTHING
            return self._run_once((*key[:2], EVERYTHING), job, fresh)
        try:
            outcomes = sandbox.run(job)
        except (EOFError, OSError):
            sandbox.close()
            return [(ENDED, "the sandbox was ended while it ran this answer")] * job.count
        except BaseException:
            sandbox.close()
            raise
        self._give_back(key, sandbox)
        return outcomes

    def _take(self, key: tuple) -> Sandbox:
        """A warm process for (role, hash seed, modules) that has cleared up after its last answer."""
        while True:
            with self._lock:
                if self._closed:
                    raise RuntimeError("this pool is closed")
                idle = self._idle.get(key)
                sandbox = idle.pop() if idle else None
            if sandbox is None:
                return self._start(key)
            if sandbox.ready():
                return sandbox
            sandbox.close()

    def _start(self, key: tuple) -> Sandbox:
        return Sandbox(self.level, self._timeout, self._memory_mb, modules=key[2], hash_seed=key[1])

    def _give_back(self, key: tuple, sandbox: Sandbox) -> None:
        """Keep the process for the next job. If there are too many, the kind that was used longest ago loses one."""
        surplus = []
        with self._lock:
            self._idle.setdefault(key, []).append(sandbox)
            self._idle.move_to_end(key)
            while self._closed or sum(map(len, self._idle.values())) > 6 * self._workers + 8:
                oldest = next((k for k, idle in self._idle.items() if idle), None)
                if oldest is None:
                    break
                surplus.append(self._idle[oldest].pop(0))
                if not self._idle[oldest]:
                    del self._idle[oldest]
        for extra in surplus:
            extra.close()

    def close(self) -> None:
        """End every process. The pool cannot be used afterwards."""
        with self._lock:
            self._closed = True
            sandboxes = [sandbox for idle in self._idle.values() for sandbox in idle]
            self._idle.clear()
        for sandbox in sandboxes:
            sandbox.close()


class _Turns:
    """Reader-writer lock: many jobs at the same time or one alone; exclusive requests have priority."""

    def __init__(self):
        self._condition = threading.Condition()
        self._running = self._want_alone = 0
        self._one_is_alone = False

    @contextmanager
    def beside_others(self):
        with self._condition:
            self._condition.wait_for(lambda: not self._one_is_alone and not self._want_alone)
            self._running += 1
        try:
            yield
        finally:
            with self._condition:
                self._running -= 1
                self._condition.notify_all()

    @contextmanager
    def alone(self):
        with self._condition:
            self._want_alone += 1
            self._condition.wait_for(lambda: not self._one_is_alone and not self._running)
            self._want_alone -= 1
            self._one_is_alone = True
        try:
            yield
        finally:
            with self._condition:
                self._one_is_alone = False
                self._condition.notify_all()
