"""How many trajectories a second are graded, against the released way of working, in one run; the ratio is last.

    python benchmarks/grading.py --data_path backend_dev.jsonl

The trajectories: the tasks of the file over and over, each with its reference solution as the answer, made different
from all others by a comment, so that no cache of whole answers could help. Peer: `grade_in_process`, the way of
working that the release has: `exec` and `eval` in the grader's own process, one thread, one alarm a test, the
reference executed for every test. Both are timed from start to end, our start of processes included, several times in
turn; the medians count.
"""

import json
import os
import resource
import signal
import statistics
import time
from pathlib import Path

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.runs.records import Task


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


def cpu_seconds() -> float:
    """Of this process and of all that it has started and that have ended."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main(
    data_path: str, trajectories: int = 5000, repeats: int = 3, workers: int | None = None, sandbox: str = "seccomp"
) -> None:
    """Time both ways and print the ratio.

    Args:
        data_path: tasks with ground_truth and test_cases, such as ColBench's backend_dev.jsonl.
        trajectories: how many answers to grade.
        repeats: how often each way is timed.
        workers: of our grader (default: its own).
        sandbox: its level.
    """
    if not Path(data_path).is_file():
        raise UserError(f"{data_path} does not exist. Give a file of tasks with ground_truth and test_cases.")
    tasks = [json.loads(line) for line in Path(data_path).read_text(encoding="utf-8").splitlines()]
    rows = []
    for number in range(trajectories):
        task = tasks[number % len(tasks)]
        rows.append((task["ground_truth"], f"{task['ground_truth']}\n# answer {number}\n", task["test_cases"]))
    ours, theirs = [], []
    for repeat in range(repeats):
        start, cpu = time.perf_counter(), cpu_seconds()
        passed_in_process = sum(grade_in_process(*row) == 1.0 for row in rows)
        theirs.append(len(rows) / (time.perf_counter() - start))
        cpu_theirs = cpu_seconds() - cpu
        start, cpu = time.perf_counter(), cpu_seconds()
        with CodeGrader(workers=workers, sandbox=sandbox) as grader:
            grades = list(grader.grade_many((Task("", reference, tests), answer) for reference, answer, tests in rows))
            level = grader.level
        ours.append(len(rows) / (time.perf_counter() - start))
        cpu_ours = cpu_seconds() - cpu
        ungradable = sum(grade.ungradable is not None for grade in grades)
        print(
            f"{repeat + 1}: in process {theirs[-1]:.0f}/s with {1000 * cpu_theirs / len(rows):.2f} ms of CPU each,"
            f" here {ours[-1]:.0f}/s with {1000 * cpu_ours / len(rows):.2f} ms",
            flush=True,
        )
    print(f"all tests passed: in process {passed_in_process}, here {sum(grade.reward == 1.0 for grade in grades)}"
          f" and {ungradable} of ungradable tasks, of {len(rows)}")  # fmt: skip
    print(f"level {level}, {os.cpu_count()} cores, load of the machine now {os.getloadavg()[0]:.1f}")
    print(f"trajectories a second, in process (peer): {statistics.median(theirs):.0f}")
    print(f"trajectories a second, sandboxed (ours):  {statistics.median(ours):.0f}")
    print(f"ratio: {statistics.median(ours) / statistics.median(theirs):.2f}")


if __name__ == "__main__":
    run(main)
