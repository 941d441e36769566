"""Many gradings in a row with hangs, memory bombs and fork bombs among them: memory stays flat and nothing is left.

    python benchmarks/soak_grading.py --gradings 100000
    python benchmarks/soak_grading.py --data_path backend_dev.jsonl     # the speed of honest answers instead

2 % of the answers hang, 2 % take memory without end, 1 % fork without end, 1 % crash the interpreter, the others are
right or wrong. Every answer is another text. Printed as it goes: answers a second, memory of the grading process and
of all its processes together; at the end what is left of processes, threads, descriptors and files, and, last, by how
much the memory grew from the first tenth to the end.

With `--data_path` the answers are the references of the file's tasks over and over, each with a comment of its own, so
that no cache of whole answers could help. Beside this package they are graded by `grade_in_process`, as the release
does: `exec` and `eval` in the grader's own process, one thread, one alarm a test, the reference executed for every
test. Both are timed from start to end, in turn; the medians count.
"""

import os
import random
import signal
import statistics
import tempfile
import threading
import time
from pathlib import Path

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.cli import run
from sweet_rl.runs.records import Task, read_records

REFERENCE = "def f(x):\n    return [x, {'a': x / 3}]\n"
CALLS = {"test1": "f(1)", "test2": "f(2)"}
# share of the answers: (share, the failure that must be found, text)
ANSWERS = {
    "hang": (0.02, "timeout", "def f(x):\n    while True:\n        try:\n            while True: pass\n"
             "        except BaseException: pass\n"),
    "memory bomb": (0.02, "memory", "def f(x):\n    a = []\n    while True: a.append(bytearray(1 << 20))\n"),
    "fork bomb": (0.01, "forbidden", "import os\ndef f(x):\n    while True: os.fork()\n"),
    "crash": (0.01, "exited", "import ctypes\ndef f(x):\n    return ctypes.string_at(0)\n"),
    "files": (0.01, None, "def f(x):\n    open('left', 'w').write('x' * x)\n    return [x, {'a': x / 3}]\n"),
    "threads": (0.01, "forbidden",
                "import threading\ndef f(x):\n    threading.Thread(target=x).start()\n    return [x, {'a': x / 3}]\n"),
    "wrong": (0.2, "wrong value", "def f(x):\n    return [x, {'a': x // 3}]\n"),
    "right": (1.0, None, REFERENCE),
}  # fmt: skip


def answers(gradings: int, seed: int):
    """(kind, answer) pairs."""
    generator = random.Random(seed)
    for number in range(gradings):
        draw = generator.random()
        kinds = iter(ANSWERS)
        kind = next(kinds)
        while draw >= ANSWERS[kind][0]:
            draw -= ANSWERS[kind][0]
            kind = next(kinds)
        yield kind, f"{ANSWERS[kind][2]}# {number}\n"


def processes() -> list[int]:
    """Ids of all processes that descend from this one."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, fresh = [], [os.getpid()]
    while fresh:
        fresh = [pid for pid, parent in parents.items() if parent in fresh]
        found += fresh
    return found


def memory_mb(pid: int) -> float:
    """Proportional share of a process's memory."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def left() -> dict:
    return {
        "processes": len(processes()),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "files": len(os.listdir(tempfile.gettempdir())) if os.environ.get("TMPDIR") else 0,
    }


def soak(
    gradings: int,
    timeout: float = 0.05,
    workers: int | None = None,
    sandbox: str = "seccomp",
    report=None,
    samples: int = 9,
) -> dict:
    """Grade so many answers; {wrong_verdicts, memory_mb: {tenth: (grader, all its processes)}, left: what is more}.

    The memory of all processes is the median of `samples`, because some answers are just taking memory.
    """
    before, memory, wrong = left(), {}, []
    task = Task("", REFERENCE, CALLS)
    start = time.monotonic()
    with CodeGrader(timeout=timeout, memory_mb=64, workers=workers, sandbox=sandbox) as grader:
        grades = grader.grade_many((task, answer) for _, answer in answers(gradings, 0))
        for number, ((kind, _), grade) in enumerate(zip(answers(gradings, 0), grades, strict=True), start=1):
            expected = ANSWERS[kind][1]
            if grade.failure != expected and not (kind == "memory bomb" and grade.failure == "timeout"):
                wrong.append((kind, grade.failure, grade.evidence["tests"][:1]))
            if number % max(1, gradings // 10) == 0:
                sums = []
                for _ in range(samples):
                    sums.append(sum(map(memory_mb, processes())))
                    time.sleep(0.02)
                own = memory_mb(os.getpid())
                memory[number] = (own, own + statistics.median(sums))
                if report:
                    report(number, number / (time.monotonic() - start), memory[number])
    after = left()
    return {"wrong_verdicts": wrong, "memory_mb": memory, "left": {name: after[name] - before[name] for name in after}}


def grade_in_process(reference: str, answer: str, test_cases: dict[str, str]) -> float:
    """The share of tests passed, as the release works: everything in this process."""

    def too_long(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_long)
    passed = 0
    for call in test_cases.values():
        signal.alarm(1)
        try:
            names: dict = {}
            exec(reference, names)
            expected = eval(call, names)
            names = {}
            exec(answer, names)
            passed += bool(eval(call, names) == expected)
        except Exception:
            pass
        finally:
            signal.alarm(0)
    return passed / len(test_cases)


def speed(data_path: str, gradings: int, repeats: int, workers: int | None, sandbox: str) -> None:
    """Time both ways of grading and print the ratio."""
    tasks = read_records(data_path, Task)
    rows = []
    for number in range(gradings):
        task = tasks[number % len(tasks)]
        rows.append((task, f"{task.ground_truth}\n# answer {number}\n"))
    ours, theirs = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        passed = sum(grade_in_process(task.ground_truth, answer, task.test_cases) == 1.0 for task, answer in rows)
        theirs.append(len(rows) / (time.perf_counter() - began))
        began = time.perf_counter()
        with CodeGrader(workers=workers, sandbox=sandbox) as grader:
            grades = list(grader.grade_many(rows))
        ours.append(len(rows) / (time.perf_counter() - began))
        right = sum(grade.reward == 1.0 for grade in grades)
        print(f"in process {theirs[-1]:.0f}/s, {passed} right; here {ours[-1]:.0f}/s, {right} right", flush=True)
    print(f"ratio: {statistics.median(ours) / statistics.median(theirs):.2f}, {os.cpu_count()} cores")


def main(
    gradings: int = 100_000,
    timeout: float = 0.05,
    workers: int | None = None,
    sandbox: str = "seccomp",
    data_path: str | None = None,
    repeats: int = 3,
) -> None:
    """Run the soak, or measure the speed.

    Args:
        gradings: how many answers.
        timeout: CPU seconds a test; two tests of an answer may run out of them.
        workers: of the grader (default: its own).
        sandbox: its level.
        data_path: tasks with ground_truth and test_cases, such as ColBench's backend_dev.jsonl: the speed is measured.
        repeats: how often each way is timed.
    """
    if data_path is not None:
        speed(data_path, gradings, repeats, workers, sandbox)
        return

    def report(number: int, rate: float, memory: tuple[float, float]) -> None:
        print(f"{number:>8} graded, {rate:.0f}/s, grader {memory[0]:.1f} MB, with all its processes {memory[1]:.1f} MB",
              flush=True)  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        result = soak(gradings, timeout, workers, sandbox, report)
        tempfile.tempdir = None
    print(f"verdicts that are not the expected ones: {len(result['wrong_verdicts'])} {result['wrong_verdicts'][:3]}")
    print("left behind: " + ", ".join(f"{count} {name}" for name, count in result["left"].items()))
    first, last = list(result["memory_mb"].values())[0], list(result["memory_mb"].values())[-1]
    print(f"growth from the first tenth to the end: grader {last[0] - first[0]:+.1f} MB,"
          f" with all its processes {last[1] - first[1]:+.1f} MB")  # fmt: skip


if __name__ == "__main__":
    run(main)
