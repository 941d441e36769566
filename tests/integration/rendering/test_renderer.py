"""Pages drawn by a real browser: pictures, scripts, replaced browsers."""

import io
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.browsers import renderer_or_skip

COLBENCH = Path(os.environ.get("SWEET_RL_COLBENCH", "")) / "frontend_dev.jsonl"
TAILWIND = '<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">'
PAGE = f"""<html>{TAILWIND}<body class="bg-gray-100">
<header class="bg-green-500 text-white p-4"><h1 class="text-3xl font-bold">Clinic</h1></header>
<img src="https://picsum.photos/id/48/320/200" alt="a view"></body></html>"""
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


@pytest.fixture(scope="module")
def renderer():
    with renderer_or_skip(workers=2, cache=0, timeout=120) as made:
        yield made


@pytest.fixture(scope="module")
def alone():
    """One browser with small pictures."""
    with renderer_or_skip(workers=1, width=400, height=300, max_height=900, timeout=120, cache=0) as made:
        yield made


def size(png):
    return struct.unpack(">II", png[16:24])


def pixel(png, x, y):
    pillow = pytest.importorskip("PIL.Image", reason="needs: pip install -e '.[frontend]'")
    return pillow.open(io.BytesIO(png)).convert("RGB").getpixel((x, y))


def test_a_page_is_drawn_at_the_set_width_with_tailwinds_colours_and_the_same_bytes_by_every_worker(renderer):
    rendered, *again = renderer.render_all([PAGE] * 4)
    assert rendered.failure is None and {other.png for other in again} == {rendered.png}
    assert size(rendered.png) == (rendered.width, rendered.height) == (1280, 720)
    assert pixel(rendered.png, 1000, 20) == (16, 185, 129)  # green-500 of Tailwind 2
    assert pixel(rendered.png, 1000, 600) == (243, 244, 246)  # gray-100


def test_a_long_page_is_drawn_whole_and_a_very_long_one_is_cut(alone):
    for length, height in {"100px": 300, "700px": 700, "100000px": 900}.items():
        rendered = alone.render(f"<!doctype html><body style='margin:0'><div style='height:{length};background:red'>")
        assert (rendered.width, rendered.height) == size(rendered.png) == (400, height)
        assert pixel(rendered.png, 200, 99) == RED


def test_animations_are_drawn_at_their_end_and_endless_ones_at_their_start(alone):
    page = """<style>@keyframes in{from{opacity:0}to{opacity:1}} @keyframes go{to{margin-left:300px}}
    p,div{height:50px;margin:0} p{animation:in 99s forwards;background:red}
    div{animation:go 1s infinite;width:90px;background:blue}</style><body style="margin:0"><p></p><div></div>"""
    png = alone.render(page).png
    assert pixel(png, 200, 20) == RED and pixel(png, 45, 75) == BLUE and pixel(png, 200, 75) == (255, 255, 255)


def test_scripts_run_and_what_they_write_after_loading_is_drawn(alone):
    page = """<body style="margin:0"><script>
    window.Promise = window.setTimeout = undefined; document.getAnimations = () => { throw 1 };
    localStorage.x = 1; alert(confirm(prompt("what?")));
    addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() => {
      document.body.style.background = localStorage.x === "1" ? "#0f0" : "#f00" })))</script>"""
    assert pixel(alone.render(page).png, 200, 150) == GREEN


def test_a_page_that_writes_itself_anew_when_it_has_loaded_is_drawn(alone):
    page = "<script>onload = () => document.write('<body style=background:#0f0>')</script>"
    assert pixel(alone.render(page).png, 200, 150) == GREEN


def test_the_play_script_styles_a_page_with_its_own_colours(alone):
    page = """<!doctype html><script src="https://cdn.tailwindcss.com"></script>
    <script>/* colours */ tailwind.config = {theme: {extend: {colors: {brand: "#" + 123456}}}} // end</script>
    <body class="bg-[#abcdef]"><div class="bg-brand h-20"></div></body>"""
    png = alone.render(page).png
    assert pixel(png, 200, 40) == (0x12, 0x34, 0x56) and pixel(png, 200, 250) == (0xAB, 0xCD, 0xEF)


def test_each_page_has_a_storage_and_an_address_of_its_own(alone):
    page = """<body style="background:#0f0"><script>
    if (localStorage.x || sessionStorage.x || document.cookie || name || history.length > 2)
      document.body.style.background = "red";
    localStorage.x = sessionStorage.x = name = 1; document.cookie = "x=1; max-age=9999";
    for (let i = 0; i < 9; i++) history.pushState({}, "", "#" + i)</script>"""
    assert [pixel(alone.render(page).png, 200, 150) for _ in range(2)] == [GREEN, GREEN]
    tells = "<script>document.write(location.host)</script>"
    assert alone.render(tells).png != alone.render(tells).png, "another page could guess the address"


@pytest.mark.parametrize(
    "script", ["location = 'https://example.com/'", "location = '/other'", "location.href = 'about:blank'"]
)
def test_a_page_that_leaves_its_address_is_refused(alone, script):
    assert alone.render(f"<p>first</p><script>{script}</script>").failure["kind"] == "left"
    assert alone.render("<script>history.pushState({}, '', '/other#here')</script><p>it stays").png


def test_the_cut_stylesheet_draws_what_the_whole_one_draws(renderer):
    body = (
        "<body class='BG-GRAY-100 sm:bg-red-200 xl:container mx-auto'><ul class='list-disc space-y-4 group'>"
        "<li class='group-hover:underline'>a<li class='&#112;-4'>b</ul>"
        "<svg><rect width=9 height=9 class=x><set attributeName=class to='fill-current text-red-500'/></rect></svg>"
        "<input class='placeholder-red-500' placeholder=p><div class='animate-pulse w-1/2 divide-y'><p>1<p>2</div>"
    )
    cut, whole, none = (renderer.render(head + body).png for head in (TAILWIND, f"<!--integrity-->{TAILWIND}", ""))
    assert cut == whole != none


@pytest.mark.slow
def test_a_page_that_never_ends_fails_and_the_next_one_is_as_it_was():
    with renderer_or_skip(workers=1, width=400, height=300, timeout=5, cache=0) as renderer:
        before = renderer.render(PAGE).png
        assert renderer.render("<p>hi</p><script>for (;;);</script>").failure["kind"] in ("timeout", "machine")
        renderer.timeout = 120
        assert renderer.render(PAGE).png == before


def test_a_browser_that_was_killed_or_hangs_is_replaced_and_the_page_is_drawn(alone):
    before = alone.render(PAGE).png
    worker = alone._free.queue[0]
    killed = worker.browser
    killed.kill()
    assert alone.render(PAGE).png == before and worker.browser is not killed
    stopped = worker.browser
    os.killpg(stopped._service.process.pid, signal.SIGSTOP)
    alone.timeout = 10
    assert alone.render(PAGE).png == before and worker.browser is not stopped
    alone.timeout = 120


def test_browsers_end_with_a_process_that_is_killed_and_leave_no_files(tmp_path):
    psutil = pytest.importorskip("psutil", reason="pages need: pip install -e '.[frontend]'")
    renderer_or_skip().close()
    program = (
        "from sweet_rl.rendering.renderer import PageRenderer\nimport time\n"
        "r = PageRenderer(1, timeout=120)\nr.render('<p>')\nprint('drawn', flush=True)\ntime.sleep(600)"
    )
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR"), str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={**os.environ, **homes}
    )
    assert process.stdout.readline() == "drawn\n"
    browsers = psutil.Process(process.pid).children(recursive=True)
    words = [word for browser in browsers for word in browser.cmdline()]
    (folder,) = {Path(word.partition("=")[2]) for word in words if word.startswith("--user-data-dir=")}
    assert len(browsers) > 2 and folder.exists() and os.listdir(tmp_path) == []
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(browsers, timeout=120)
    assert [left for left in alive if left.status() != psutil.STATUS_ZOMBIE] == []
    deadline = time.monotonic() + 120
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists() and os.listdir(tmp_path) == []
