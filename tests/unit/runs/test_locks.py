"""Locks that last as long as any process has them open."""

import os
import subprocess
import sys
import threading
import time

import pytest

from sweet_rl.errors import UserError
from sweet_rl.runs.locks import lock_file, lock_gpus


def test_a_lock_is_refused_until_it_is_closed(tmp_path):
    lock = lock_file(tmp_path / "new" / "lock")
    assert lock_file(tmp_path / "new" / "lock", wait=False) is None
    os.close(lock)
    assert lock_file(tmp_path / "new" / "lock", wait=False) is not None


def test_a_child_that_inherits_a_lock_holds_it_after_its_parent_has_let_go(tmp_path):
    lock = lock_file(tmp_path / "lock")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock]) as child:
        os.close(lock)
        assert lock_file(tmp_path / "lock", wait=False) is None
        child.communicate(b"\n")
    assert lock_file(tmp_path / "lock", wait=False) is not None


def test_gpus_are_given_to_one_step_at_a_time_and_the_free_ones_first(tmp_path):
    first = lock_gpus(2, ["0", "1", "2", "3"], tmp_path)
    second = lock_gpus(1, ["0", "1", "2", "3"], tmp_path)
    assert (list(first), list(second)) == (["0", "1"], ["2"])
    os.close(first["0"])
    assert list(lock_gpus(2, ["0", "1", "2", "3"], tmp_path)) == ["0", "3"]


def test_more_gpus_than_there_are_is_an_error_and_not_a_wait(tmp_path):
    with pytest.raises(UserError, match="8 GPUs are wanted, but there are 2: 0, 1"):
        lock_gpus(8, ["0", "1"], tmp_path)


def test_who_waits_for_gpus_holds_the_queue_until_all_are_there(tmp_path):
    held, found = lock_file(tmp_path / "1"), {}
    waiting = threading.Thread(target=lambda: found.update(lock_gpus(2, ["0", "1"], tmp_path)))
    waiting.start()
    while (free := lock_file(tmp_path / "0", wait=False)) is not None:  # until the thread has taken it
        os.close(free)
        time.sleep(0.01)
    assert lock_file(tmp_path / "queue", wait=False) is None
    os.close(held)
    waiting.join(30)
    assert sorted(found) == ["0", "1"]
