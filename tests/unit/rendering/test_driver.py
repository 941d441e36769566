"""What a browser's processes may use before a page has failed, and that ending them meets no race."""

import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

psutil = pytest.importorskip("psutil", reason="pages need: pip install -e '.[frontend]'")
pytest.importorskip("selenium", reason="pages need: pip install -e '.[frontend]'")

from selenium.common.exceptions import WebDriverException  # noqa: E402

from sweet_rl.rendering import driver  # noqa: E402
from sweet_rl.rendering.browser import DrawingFailed  # noqa: E402
from sweet_rl.rendering.driver import LONGEST_TEMPORARY, MAX_MEMORY, Driver, geckodriver  # noqa: E402


class Process:
    """A process with the CPU time and memory that a test gives it; `gone`: it ended after it was listed."""

    def __init__(self, user=0.0, system=0.0, memory=0, gone=False):
        self.user, self.system, self.memory, self.gone = user, system, memory, gone

    def _answer(self, **values):
        if self.gone:
            raise psutil.NoSuchProcess(1)
        return SimpleNamespace(**values)

    def cpu_times(self):
        return self._answer(user=self.user, system=self.system)

    def memory_info(self):
        return self._answer(rss=self.memory)

    def kill(self):
        self._answer()


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(driver, "time", clock)
    return clock


def browser(*processes) -> Driver:
    made = object.__new__(Driver)
    made.processes = lambda: list(processes)
    made._service = None
    return made


def test_where_chromium_s_own_sandbox_does_not_start_it_is_started_without_it(monkeypatch, tmp_path):
    made, started = browser(Process()), []

    def start(options, unconfined):
        started.append(unconfined)
        if not unconfined:
            raise WebDriverException("no usable sandbox")
        return "a browser"

    made._folder, made._start_chrome = tmp_path, start
    monkeypatch.setattr(driver.os, "geteuid", lambda: 1000)
    assert made._start_chromium("chromium") == "a browser" and started == [False, True]


def test_a_long_temporary_folder_is_left_because_the_path_of_a_socket_is_bounded(monkeypatch, tmp_path):
    monkeypatch.setattr(Driver, "_start_chromium", lambda self, program: None)
    monkeypatch.setattr(Driver, "_watch", lambda self: None)
    folders = []
    for length in (LONGEST_TEMPORARY, LONGEST_TEMPORARY + 1):
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="x" * (length - len("/tmp/") - 8)) as folder:
            monkeypatch.setattr(tempfile, "tempdir", folder)
            made = Driver("chromium", "a program")
            folders.append(Path(made._folder).parent == Path(folder))
            made.end()
    assert folders == [True, False] and Path(made._folder).parent == Path("/tmp")


def test_a_page_that_computed_for_its_whole_limit_is_at_fault_only_after_that_limit(clock):
    old, fresh = Process(user=100.0, system=7.0), Process(user=50.0)
    made = browser(old)
    assert made.start_page(10.0, 4.0) == 140.0  # the deadline
    made.processes = lambda: [old, fresh]
    old.user, old.system, fresh.user = 104.0, 8.0, 4.5  # 9.5 s since the page started
    clock.now = 109.9
    made.check()
    clock.now = 110.0
    with pytest.raises(DrawingFailed, match="9.5 s") as failed:
        made.check()
    assert (failed.value.kind, failed.value.by_page) == ("timeout", True)


def test_a_page_that_waited_for_the_machine_is_not_at_fault(clock):
    old = Process(user=100.0)
    made = browser(old)
    made.start_page(10.0, 4.0)
    old.user, clock.now = 108.9, 139.0
    made.check()


def test_the_time_of_earlier_pages_does_not_count(clock):
    one = Process(user=100.0)
    made = browser(one)
    made.start_page(10.0, 1.0)
    one.user = 200.0
    made.start_page(10.0, 1.0)
    clock.now = 120.0
    made.check()


@pytest.mark.parametrize(
    "sizes, fails", [([MAX_MEMORY // 2] * 2, False), ([MAX_MEMORY // 2, MAX_MEMORY // 2 + 1], True)]
)
def test_the_memory_of_all_processes_together_is_limited_at_any_time(clock, sizes, fails):
    made = browser(*(Process(memory=size) for size in sizes))
    made.start_page(10.0, 1.0)
    if not fails:
        return made.check()
    with pytest.raises(DrawingFailed, match="3072 MB") as failed:
        made.check()
    assert (failed.value.kind, failed.value.by_page) == ("memory", True)


def test_processes_that_are_gone_already_do_not_matter(clock):
    made = browser(Process(gone=True), Process(user=1.0), Process(gone=True))
    made.start_page(10.0, 1.0)
    clock.now = 111.0
    made.check()
    made.kill()


def test_all_processes_of_a_tree_are_killed_also_if_its_root_died_first():
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo; wait"], stdout=subprocess.PIPE)
    shell.stdout.readline()
    made = object.__new__(Driver)
    made._processes, made._service = [], SimpleNamespace(process=shell)
    assert len(made.processes()) == 2
    shell.kill()
    shell.wait()
    left = made.processes()
    assert len(left) == 1
    made.kill()
    _, alive = psutil.wait_procs(left, timeout=60)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []


def test_an_unknown_browser_is_refused_and_the_path_is_searched_first(monkeypatch, tmp_path):
    program = tmp_path / "firefox"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(driver, "PLACES", {"chromium": (), "firefox": ("/usr/bin",)})
    assert driver.find_browser() == driver.find_browser("firefox") == ("firefox", str(program))
    program.unlink()
    assert driver.find_browser() == ("firefox", "/usr/bin")
    (tmp_path / "geckodriver").write_text("")
    (tmp_path / "geckodriver").chmod(0o755)
    assert geckodriver() == str(tmp_path / "geckodriver")
