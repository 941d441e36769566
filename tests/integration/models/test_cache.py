"""The call cache shared by processes that are killed, and in front of a real server."""

import os
import signal
import subprocess
import sys

from sweet_rl.models.cache import CallCache
from tests.support.command_line import ROOT

ASKED = [{"role": "user", "content": "how many?"}]
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
    words = [sys.executable, "-c", WRITER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    written = {}
    for turn in range(2):
        starts = [turn * 40_000, turn * 40_000 + 20_000]
        processes = [
            subprocess.Popen([*words, str(first)], env=environment, stdout=subprocess.PIPE, text=True)
            for first in starts
        ]
        for process in processes:
            process.stdout.readline()
        for process in processes:  # both have written several entries when they are killed
            for _ in range(20):
                process.stdout.readline()
        for first, process in zip(starts, processes, strict=True):
            process.send_signal(signal.SIGKILL)
            numbers = process.communicate()[0].splitlines(keepends=True)
            whole = [line for line in numbers if line.endswith("\n")]
            written[first] = int(whole[-1]) if whole else first + 20
    cache = CallCache(tmp_path)

    for first, last in written.items():
        for number in range(first, last + 1):
            assert cache.get(str(number))[0].text == str(number)
    assert sum(last - first for first, last in written.items()) > 20
