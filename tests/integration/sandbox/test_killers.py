"""Answers that end their process among honest ones: they get 0, their neighbours 1, whatever they leave behind.

An answer leaves debris of one kind and ends in one way; each is followed by honest answers, in the same warm processes.
"""

import os
import subprocess
import sys
from itertools import cycle

import pytest

from sweet_rl.dialogues.backend.hidden_tests import CodeGrader
from sweet_rl.runs.records import Task
from tests.unit.sandbox.test_sandbox import levels

HONEST = "import os\ndef f(x):\n    return x + 1"
LOOKS_ROUND = "import os\ndef f(x):\n    return x + 1 if os.listdir('.') == [] else 0"
TASK = Task("", HONEST, {"a": "f(1)", "b": "f(2)"})
DEEP = "for _ in range(%d):\n    os.mkdir(%s)\n    os.chdir(%s)"
DEBRIS = {
    "a folder that nobody may list": "os.mkdir('d', 0)",
    "a folder in a closed one": "os.mkdir('d')\nos.mkdir('d/e', 0)\nos.mkdir('e', 0o300)\nopen('e/f', 'w')",
    "a mask": "os.umask(0o777)\nos.mkdir('d')\nopen('f', 'w')",
    "long names in each other": DEEP % (60, "'n' * 250", "'n' * 250"),
    "deeper than a path may be": DEEP % (505, "'nest' * 60", "'nest' * 60"),
    "a closed folder around the working one": (
        "os.mkdir('d')\nos.chdir('d')\nos.mkdir('e', 0)\nos.rename('../d', '../g')"
    ),
    "as many files as there may be": "for i in range(500): open(str(i), 'w')",
    "as many bytes as there may be": "with open('b', 'wb') as file: file.write(bytes(15 << 20))",
    "odd names": "for name in (b'\\xff', b'-rf', b'a\\nb', b' ', b'\\\\', b'*', b'...'): os.mkdir(name, 0)",
    "links": "os.symlink('l', 'l')\nos.symlink('/', 'r')\nos.link('l', 'm')",
    "pipes and devices": "os.mkfifo('p')\nos.mknod('n')",
    "a socket": "import socket\nsocket.socket(socket.AF_UNIX).bind('s')",
    "a file that cannot be removed": (
        "import fcntl, struct\nwith open('i', 'w') as file:\n    fcntl.ioctl(file, 0x40086602, struct.pack('l', 0x10))"
    ),
    "a mount": "import ctypes\nctypes.CDLL(None).mount(b'none', b'/scratch', b'tmpfs', 0, None)\nopen('f', 'w')",
    "open and locked files": (
        "import fcntl\nfor i in range(20):\n    keep.append(open(str(i), 'w'))\n    fcntl.flock(keep[-1], 2)"
    ),
    "threads that write": (
        "import threading\ndef fill(i):\n    while True:\n        try: os.mkdir(f'{i}{len(keep)}', 0)\n"
        "        except OSError: pass\n        keep.append(1)\n"
        "for i in range(4): threading.Thread(target=fill, args=(i,), daemon=True).start()"
    ),
}  # fmt: skip
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
    "a forged result": "os.write(3, b'\\x05\\0\\0\\0Vtrue')\nos._exit(0)",
    "half a result": "os.write(3, b'\\xff\\0\\0\\0V')\nos._exit(0)",
}  # fmt: skip


def killer(debris: str, end: str) -> str:
    """An answer that leaves debris, as far as it may, and ends its process; or tries to, and gives a wrong value."""
    pieces = [piece.replace("\n", "\n            ") for piece in (debris, end)]
    tries = "".join(f"        try:\n            {piece}\n        except Exception: pass\n" for piece in pieces)
    return f"import os\nkeep = []\ndef f(x):\n    if x:\n{tries}    return None"


def wrong(level: str, kinds: list[tuple[str, str]]) -> list:
    """Grades killers of these kinds, each followed by two honest answers; the grades that are not as they should be."""
    rows = []
    for debris, end in kinds:
        rows += [((debris, end), killer(DEBRIS[debris], ENDS[end]), 0.0), ("honest", HONEST, 1.0)]
        rows.append(("looks round", LOOKS_ROUND if level == "strict" else HONEST, 1.0))
    with CodeGrader(timeout=0.3, memory_mb=64, workers=2, sandbox=level) as grader:
        grades = list(grader.grade_many((TASK, text) for _, text, _ in rows))
    return [(name, got) for (name, _, reward), got in zip(rows, grades, strict=True) if got.reward != reward]


@pytest.mark.parametrize("level", levels())
def test_killers_get_nothing_and_harm_no_neighbour(level):
    debris = DEBRIS if level == "strict" else [*DEBRIS][:1]  # elsewhere there is no folder for it
    kinds = (
        zip(debris, cycle(ENDS), strict=False) if len(debris) > len(ENDS) else zip(cycle(debris), ENDS, strict=False)
    )
    assert wrong(level, [*kinds]) == []


def test_on_a_busy_machine_they_harm_no_neighbour_either():
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    try:
        assert wrong("auto", [*zip(DEBRIS, ENDS, strict=False)][:4]) == []
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
