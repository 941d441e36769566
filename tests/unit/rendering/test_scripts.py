"""Which scripts of a page may run."""

import base64
import hashlib

import pytest

from sweet_rl.rendering.scripts import plain_configs, policy, uses_play_script

PLAY = '<script src="https://cdn.tailwindcss.com"></script>'


@pytest.mark.parametrize(
    "page",
    [
        PLAY,
        "<SCRIPT async SRC=https://cdn.tailwindcss.com></SCRIPT>",
        "<script src='//cdn.tailwindcss.com/3.4.1?plugins=forms'></script>",
        "<p>cdn.tailwindcss.com<script defer\nsrc = 'http://cdn.tailwindcss.com'></script>",
    ],
)
def test_the_play_script_is_recognised(page):
    assert uses_play_script(page)


@pytest.mark.parametrize(
    "page",
    [
        "<p>cdn.tailwindcss.com",
        "<a href='https://cdn.tailwindcss.com'>",
        "<script src=x></script>//cdn.tailwindcss.com",
    ],
)
def test_a_mention_of_it_is_none(page):
    assert not uses_play_script(page)


def test_without_javascript_no_script_may_run():
    assert "script-src 'none'" in policy("<script>1</script>", False)
    assert "allow-scripts" not in policy("<script>1</script>", False)


def test_beside_the_play_script_only_plain_settings_may_run():
    config = "\n tailwind.config = {theme: {extend: {colors: {'brand-x': \"#12f\", n: [1, -2.5, true]}}}} // so\n"
    page = f"{PLAY}<script>{config}</script><script>alert(1)</script>"
    checksum = base64.b64encode(hashlib.sha256(config.encode()).digest()).decode()
    allowed = policy(page, False)
    assert f"script-src http://cdn.tailwindcss.com https://cdn.tailwindcss.com 'sha256-{checksum}'; " in allowed
    assert allowed.count("sha256") == 1 and "unsafe-eval" not in allowed


@pytest.mark.parametrize(
    "script",
    [
        "tailwind.config = {a: alert(1)}",
        "tailwind.config = {}; fetch('x')",
        "tailwind.config = {a: `x`}",
        "tailwind.config = {get a() {}}",
        "tailwind.config = {a: b}",
        "tailwind.config = {a: 'x' + y}",
        "tailwind.config = {[x]: 1}",
        "tailwind.config = {a: 1}\nlocation = 'x'",
        "tailwind.config = {a: '\\x3c'}",
        "tailwind.config = {...x}",
        "tailwind.config = {a: /x/}",
        "tailwind.config = {a: 1}\n{for(;;);}",
        "alert(1); tailwind.config = {}",
        "tailwind.config = {plugins: [require('x')]}",
    ],
)
def test_settings_that_compute_are_not_plain(script):
    assert plain_configs(f"<script>{script}</script>") == []


@pytest.mark.parametrize(
    "page",
    [
        "<script" * 200_000,
        "<script>" * 200_000,
        "<script>tailwind.config = " + "1" * 1_000_000 + "(</script>",
        "<script src=" + "//cdn.tailwindcss.com" * 50_000,
        "<script>tailwind.config = {" + "a " * 500_000,
        "<script>tailwind.config = {/*" + "*" * 1_000_000,
    ],
)
def test_a_long_page_without_an_end_allows_no_script_of_its_own(page):
    """A reader that compared in the square of the length would not come back from these pages."""
    assert plain_configs(page) == []
    assert "'unsafe-inline'" not in policy(PLAY + page, False).partition("script-src")[2]
