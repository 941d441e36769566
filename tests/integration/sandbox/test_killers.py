"""Answers that end their process among honest ones, on the same servers: they get 0, their neighbours 1."""

import os
import subprocess
import sys

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.records import Task

HONEST = "import os\ndef f(x):\n    return x + 1"
TASK = Task("", HONEST, {"a": "f(1)", "b": "f(2)"})
ENDS = {
    "exit": "os._exit(0)",
    "a signal to itself": "os.kill(os.getpid(), 9)",
    "signals to its parent": "for n in (19, 15, 9): os.kill(os.getppid(), n)",
    "a stopped parent": "os.kill(os.getppid(), 19)",
    "a bad address": "import ctypes\nctypes.string_at(0)",
    "an abort": "os.abort()",
    "no more stack": "import sys\nsys.setrecursionlimit(10 ** 9)\ndef g(): return [*map(lambda _: g(), [1])]\ng()",
    "no more memory": "keep.append([bytes(1 << 20) for _ in range(10 ** 6)])",
    "a closed connection": "os.closerange(0, 64)\nimport time\ntime.sleep(0.05)\nos._exit(0)",
    "a closed connection, and going on": "os.closerange(0, 64)\nwhile True: pass",
    "a flood": "while True: os.write(3, bytes(1 << 16))",
    "a forged result": "os.write(3, b'Vtrue\\n')\nos._exit(0)",
    "half a result": "os.write(3, b'V2')\nos._exit(0)",
    "threads that go on": "import threading\ndef loop():\n    while True: keep.append(1)\n"
    "for i in range(9): threading.Thread(target=loop, daemon=True).start()",
}  # fmt: skip


def killer(end: str) -> str:
    """An answer that ends its process, or tries to and gives a wrong value."""
    end = end.replace("\n", "\n            ")
    return (
        f"import os\nkeep = []\ndef f(x):\n    if x:\n        try:\n            {end}\n"
        "        except Exception: pass\n    return None"
    )


def wrong() -> list:
    """Grades killers, each followed by two honest answers; the grades that are not as they should be."""
    rows = []
    for name, end in ENDS.items():
        rows += [(name, killer(end), 0.0), ("honest", HONEST, 1.0), ("honest", HONEST, 1.0)]
    with CodeGrader(timeout=0.3, memory_mb=64, workers=2) as grader:
        grades = list(grader.grade_many((TASK, text) for _, text, _ in rows))
    return [(name, got) for (name, _, reward), got in zip(rows, grades, strict=True) if got.reward != reward]


def test_killers_get_nothing_and_harm_no_neighbour():
    assert wrong() == []


def test_on_a_busy_machine_they_harm_no_neighbour_either():
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    try:
        assert wrong() == []
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
