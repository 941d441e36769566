"""`python` and `torchrun` for a recipe: they run its scripts in processes that have already imported torch.

Everything else that they are given is run by the interpreter of the tests.
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.support.command_line import ROOT
from tests.support.warm_processes import warm

PROGRAM = """#!{python} -SE
import json, os, socket, sys
words = sys.argv[1:]
place = next((i for i, word in enumerate(words) if word.startswith("scripts/") and "serve" not in word), None)
if place is None:
    os.execv("{python}", ["{python}", *words])
processes = words[words.index("--nproc_per_node") + 1] if "--nproc_per_node" in words else 1
with socket.socket(socket.AF_UNIX) as server:
    server.connect("{address}")
    server.sendall((json.dumps([words[place:], int(processes)]) + "\\n").encode())
    code, printed = json.load(server.makefile())
print(printed)
sys.exit(code)
"""
# DeepSpeed would compile a C++ module.
SCRIPT = """
import os
import runpy
import sys

try:
    import deepspeed
except ImportError:
    pass
else:
    deepspeed.ops.__compatible_ops__ = {{}}
os.chdir("{root}")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@contextlib.contextmanager
def warm_programs(folder: Path) -> Iterator[Path]:
    """Yield a folder for the PATH that has `python` and `torchrun`; they work as long as the context is open."""
    script, address = folder / "script.py", folder / "socket"
    script.write_text(SCRIPT.format(root=ROOT))

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            words, processes = json.loads(self.rfile.readline())
            done = warm(script, words, processes)
            with contextlib.suppress(BrokenPipeError):  # the recipe has been ended
                self.wfile.write(json.dumps(done).encode())

    (folder / "bin").mkdir()
    for name in ("python", "torchrun"):
        program = folder / "bin" / name
        program.write_text(PROGRAM.format(python=sys.executable, address=address))
        program.chmod(0o755)
    with socketserver.ThreadingUnixStreamServer(str(address), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        try:
            yield folder / "bin"
        finally:
            server.shutdown()
            thread.join()
