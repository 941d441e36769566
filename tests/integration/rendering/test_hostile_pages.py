"""Hostile pages in a real browser: nothing leaves the machine, each ends in time, the next page is as it was."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="pages need: pip install -e '.[frontend]'")
pytest.importorskip("PIL", reason="pages need: pip install -e '.[frontend]'")

from tests.support.browsers import renderer_or_skip  # noqa: E402
from tests.support.hostile_pages import SOAK_ONLY, has_scripts, hostile_pages  # noqa: E402

pytestmark = pytest.mark.slow
ENOUGH = 600  # seconds in which a page has its picture or its failure, on a machine however busy
PAGES = {name: has_scripts(page) for name, page in hostile_pages(0, "").items() if name not in SOAK_ONLY}


def _namespaces() -> bool:
    """Whether this machine lets us make a network of our own."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    command = ["unshare", "-Urnm", "ip", "link", "set", "lo", "up"]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def traps(request):
    """What `trap` printed, by whether scripts run and by page; both at once, each in a network of its own."""
    renderer_or_skip(workers=1, browser=request.param).close()  # it starts, with its driver
    confined = _namespaces()
    words = {"off": [], "on": []} if request.param == "chromium" else {"off": []}
    with ThreadPoolExecutor(2) as threads:
        runs = {scripts: threads.submit(_run, request.param, scripts, confined) for scripts in words}
        return {scripts: run.result() for scripts, run in runs.items()} | {"confined": confined}


def _run(browser: str, scripts: str, confined: bool) -> dict[str, dict]:
    command = [sys.executable, "-m", "tests.support.trap", browser, scripts, "tests"]
    command = ["unshare", "-Urnm", *command] if confined else [*command, "plain"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1500, cwd=Path(__file__).parents[3])
    assert ended.returncode == 0, ended.stderr[-3000:]
    return {line["name"]: line for line in map(json.loads, ended.stdout.splitlines())}


def test_the_trap_sees_a_socket_a_name_and_an_unguarded_browser(traps):
    own, unguarded = traps["off"]["control"]["seen"], traps["off"]["without guard"]["seen"]
    assert any("b'control'" in seen for seen in own)
    assert unguarded
    if traps["confined"]:
        assert any("203.0.113.53" in seen for seen in own), "the name server's trap is not armed"


def test_the_browser_process_alone_lets_nothing_out(traps):
    assert traps["off"]["settings alone"]["seen"] == []


@pytest.mark.parametrize(
    "scripts, name",
    [("off", name) for name in PAGES] + [("on", name) for name, scripted in PAGES.items() if scripted],
)
def test_a_hostile_page_reaches_nothing_ends_and_leaves_nothing_behind(traps, scripts, name):
    if scripts not in traps:
        pytest.skip("Firefox with scripts is drawn by the soak: python -m tests.support.trap firefox on soak")
    page = traps[scripts][name]
    assert page["seen"] == []
    assert page["seconds"] < ENOUGH
    assert page["failure"] is None or page["failure"]["kind"] in ("timeout", "memory", "crashed", "too_large")
    assert (page["picture"] is None) == (page["failure"] is not None)
    assert page["honest_unchanged"], page["honest_failure"]
    if name != "what one page leaves for the next":  # which is magenta by its own style
        assert not page["magenta"], "a file of the disk is in the picture"


def test_nothing_leaves_later_and_nothing_is_downloaded(traps):
    for scripts in ("off", "on"):
        if scripts in traps:
            assert traps[scripts]["at the end"]["seen"] == []
            assert traps[scripts]["at the end"]["left"] == []


def test_twenty_five_pages_and_more():
    assert len(PAGES) >= 25
