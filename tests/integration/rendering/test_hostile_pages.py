"""Hostile pages in a real browser: nothing leaves the machine, each ends in time, the next page is as it was."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="pages need: pip install -e '.[frontend]'")
pytest.importorskip("PIL", reason="pages need: pip install -e '.[frontend]'")

from tests.support.browsers import renderer_or_skip  # noqa: E402
from tests.support.hostile_pages import LEAVES_SOMETHING, hostile_pages  # noqa: E402

pytestmark = pytest.mark.slow


def _namespaces() -> bool:
    """Whether this machine lets us make a network of our own."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    command = ["unshare", "-Urnm", "ip", "link", "set", "lo", "up"]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def trap():
    """What `trap` printed, by page, and whether it had a network of its own."""
    renderer_or_skip(workers=1).close()
    confined = _namespaces()
    command = [sys.executable, "-m", "tests.support.trap"]
    command = ["unshare", "-Urnm", *command] if confined else [*command, "plain"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1500, cwd=Path(__file__).parents[3])
    assert ended.returncode == 0, ended.stderr[-3000:]
    return {line["name"]: line for line in map(json.loads, ended.stdout.splitlines())} | {"confined": confined}


def test_the_trap_sees_a_socket_a_name_and_an_unconfined_browser(trap):
    own = trap["control"]["seen"]
    assert any("b'control'" in seen for seen in own)
    assert trap["unconfined"]["seen"]
    if trap["confined"]:
        assert any("203.0.113.53" in seen for seen in own), "the name server's trap is not armed"


def test_no_hostile_page_reaches_anything_or_leaves_anything_behind(trap):
    drawn = {name: trap[name] for name in hostile_pages(0, "")}
    kinds = {page["failure"]["kind"] for page in drawn.values() if page["failure"]}
    assert kinds <= {"timeout", "crashed", "left"}
    bad = {
        name: page
        for name, page in drawn.items()
        if page["seen"] or not page["honest_unchanged"] or (page["picture"] is None) != (page["failure"] is not None)
    }
    assert bad == {}
    files_shown = {name for name, page in drawn.items() if page["magenta"]}
    assert files_shown <= {LEAVES_SOMETHING}, "a file of the disk is in a picture"  # that one by its own style
    after = trap["at the end"]
    assert (after["seen"], after["left"], after["honest_failure"], after["honest_unchanged"]) == ([], [], None, True)
