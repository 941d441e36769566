"""The call cache shared by processes that are killed, and in front of a real server."""

import os
import subprocess
import sys

from sweet_rl.models.cache import CallCache
from tests.support.command_line import ROOT

WRITER = """
import sys
from sweet_rl.models.base import Completion
from sweet_rl.models.cache import CallCache
cache = CallCache(sys.argv[1])
for number in range(int(sys.argv[2]), 100000):
    cache.put(str(number), [Completion(str(number), None, None, "stop")])
    assert cache.get(str(number))[0].text == str(number)
    print(number, flush=True)
"""


def test_processes_share_a_folder_and_may_be_killed_at_any_moment(tmp_path):
    environment, written = {**os.environ, "PYTHONPATH": str(ROOT)}, {}
    for turn in range(2):
        started = {}
        for first in (turn * 40_000, turn * 40_000 + 20_000):
            words = [sys.executable, "-c", WRITER, str(tmp_path), str(first)]
            started[first] = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        for process in started.values():  # all have written several entries when they are killed
            for _ in range(20):
                process.stdout.readline()
        for first, process in started.items():
            process.kill()
            whole = [line for line in process.communicate()[0].splitlines(keepends=True) if line.endswith("\n")]
            written[first] = int(whole[-1]) if whole else first + 19
    cache = CallCache(tmp_path)
    for first, last in written.items():
        for number in range(first, last + 1):
            assert cache.get(str(number))[0].text == str(number)
