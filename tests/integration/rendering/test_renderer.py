"""Pages drawn by a real browser: pictures, layouts, replaced browsers."""

import io
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from sweet_rl.rendering import fetch
from sweet_rl.rendering.browser import DrawingFailed
from tests.support.browsers import renderer_or_skip

COLBENCH = Path(os.environ.get("SWEET_RL_COLBENCH", "")) / "frontend_dev.jsonl"
TAILWIND = '<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">'
PAGE = f"""<html>{TAILWIND}<body class="bg-gray-100">
<header class="bg-green-500 text-white p-4"><h1 class="text-3xl font-bold">Clinic</h1></header>
<img src="https://picsum.photos/id/48/320/200" alt="a view"></body></html>"""


@pytest.fixture(scope="module")
def renderer():
    with renderer_or_skip(workers=2, cache=0, timeout=60) as made:
        yield made


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def alone(request):
    """One browser of each kind, with small pictures."""
    with renderer_or_skip(
        workers=1, browser=request.param, width=400, height=300, max_height=900, timeout=60, cache=0
    ) as made:
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
        assert pixel(rendered.png, 200, 99) == (255, 0, 0)


def test_a_screen_high_element_stays_as_high_as_the_screen_on_a_long_page(alone):
    rendered = alone.render(
        "<!doctype html><body style='margin:0'><div style='height:100vh;background:red'></div>"
        "<div style='height:400px;background:blue'></div>"
    )
    assert rendered.height == 700
    assert pixel(rendered.png, 5, 298) == (255, 0, 0) and pixel(rendered.png, 5, 302) == (0, 0, 255)


def test_what_moves_is_drawn_where_it_ends_or_where_it_began(alone):
    page = """<style>@keyframes in{from{opacity:0}to{opacity:1}} @keyframes turn{to{transform:rotate(1turn)}}
    p{animation:in 9s forwards;background:red;height:50px;margin:0} div{animation:turn 1s infinite;width:90px}
    </style><body style="margin:0"><p></p><div>turning</div><marquee>running</marquee><progress></progress>
    <input autofocus value="typed"><svg width="90" height="20"><rect width="9" height="9">
    <animate attributeName="x" values="0;80" dur="1s" repeatCount="indefinite"/></rect></svg><a href="">seen</a>"""
    pictures = {alone.render(page).png for _ in range(3)}
    assert len(pictures) == 1 and size(min(pictures)) == (400, 300)
    assert pixel(pictures.pop(), 200, 20) == (255, 0, 0)


def test_the_cut_stylesheet_draws_what_the_whole_one_draws(renderer, monkeypatch):
    from sweet_rl.rendering import outside

    page = (
        f"{TAILWIND}<body class='BG-GRAY-100 sm:bg-red-200 xl:container mx-auto'><ul class='list-disc space-y-4 group'>"
        "<li class='group-hover:underline'>a<li class='&#112;-4'>b</ul><iframe srcdoc='"
        f"{TAILWIND.replace(chr(34), '&quot;')}<p class=&quot;text-5xl bg-blue-300&quot;>inner'></iframe>"
        "<svg><rect width=9 height=9 class=x><set attributeName=class to='fill-current text-red-500'/></rect></svg>"
        "<input class='placeholder-red-500' placeholder=p><div class='animate-pulse w-1/2 divide-y'><p>1<p>2</div>"
    )
    cut = renderer.render(page).png
    monkeypatch.setattr(outside, "stylesheet_for", lambda page: outside.stylesheet())
    whole = renderer.render(page).png
    assert cut == whole
    monkeypatch.setattr(outside, "stylesheet", lambda: b"")
    assert renderer.render(page).png != whole, "the stylesheet makes no difference: nothing was compared"


def test_the_play_script_styles_a_page_whose_own_scripts_do_not_run(alone):
    page = """<!doctype html><script src="https://cdn.tailwindcss.com"></script>
    <script>tailwind.config = {theme: {extend: {colors: {brand: "#123456"}}}}</script>
    <body class="bg-[#abcdef]"><div class="bg-brand h-20"></div>%s</body>"""
    script = "<script>document.body.innerHTML = '<h1>changed</h1>'</script><img src=x onerror='document.body.remove()'>"
    drawn, hostile = alone.render(page % "<img src=x>"), alone.render(page % script)
    assert pixel(drawn.png, 200, 40) == (0x12, 0x34, 0x56) and pixel(drawn.png, 200, 250) == (0xAB, 0xCD, 0xEF)
    assert hostile.png == drawn.png


def test_a_killed_browser_is_replaced_and_the_page_is_drawn(alone):
    before = alone.render(PAGE).png
    worker = alone._free.get()
    worker.browser.kill()
    alone._free.put(worker)
    assert alone.render(PAGE).png == before


def test_what_a_page_still_asks_for_is_not_waited_for_by_the_next(alone):
    """Icons are asked for one by one once a page has loaded; the request that a new page cuts off never ends."""
    icons = "".join(f'<link rel=icon href="https://example.com/{number}">' for number in range(100))
    for _ in range(4):
        assert alone.render(icons).failure is None
        worker = alone._free.get()  # `render` would draw the page again, alone
        try:
            assert worker.draw(PAGE, False, 60).png
        finally:
            alone._free.put(worker)


def failure_of(renderer, page, limit, patience=1.0):
    """The failure of one drawing by the browser of a renderer; `render` would draw the page again, alone."""
    worker = renderer._free.get()
    try:
        with pytest.raises(DrawingFailed) as failed:
            worker.draw(page, False, limit, patience)
    finally:
        renderer._free.put(worker)
    return failed.value.kind, failed.value.by_page


def test_a_page_that_takes_too_long_fails_by_its_own_doing_and_leaves_the_pool_going(alone):
    before = alone.render(PAGE).png
    assert failure_of(alone, "<div>" * 60_000, limit=0.3, patience=200) == ("timeout", True)
    assert alone.render(PAGE).png == before


def test_a_browser_that_stands_still_is_not_certainly_the_fault_of_the_page(alone):
    """What follows from that: tests/unit/rendering/test_renderer.py."""
    alone.render(PAGE)
    for process in alone._free.queue[0].browser.processes():
        process.suspend()
    assert failure_of(alone, PAGE, limit=0.3) == ("timeout", False)


def test_browsers_end_with_a_process_that_is_killed_and_leave_no_files(tmp_path):
    psutil = pytest.importorskip("psutil", reason="pages need: pip install -e '.[frontend]'")
    renderer_or_skip()
    from sweet_rl.rendering.driver import LONGEST_TEMPORARY

    program = (
        "from sweet_rl.rendering.renderer import PageRenderer\nimport time\n"
        "r = PageRenderer(1)\nr.render('<p>')\n"
        "print('drawn', flush=True)\ntime.sleep(60)"
    )
    # The longest path of a temporary folder with which Chromium starts in it.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="x" * (LONGEST_TEMPORARY - len("/tmp/") - 8)) as folder:
        homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(tmp_path))
        where = {**os.environ, **homes, fetch.FOLDER_VARIABLE: str(fetch.folder()), "TMPDIR": folder}
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=where)
        assert process.stdout.readline() == "drawn\n"
        browsers = psutil.Process(process.pid).children(recursive=True)
        assert len(browsers) > 2 and os.listdir(folder) and os.listdir(tmp_path) == []
        process.send_signal(signal.SIGKILL)
        process.wait()
        _, alive = psutil.wait_procs(browsers, timeout=120)
        assert [left for left in alive if left.status() != psutil.STATUS_ZOMBIE] == []
        deadline = time.monotonic() + 120
        while (left := os.listdir(folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == [] and os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.skipif(not COLBENCH.is_file(), reason="ColBench is not here: set SWEET_RL_COLBENCH to its folder")
def test_colbench_pages_are_styled_and_the_same_bytes_from_another_browser(renderer):
    """Eight of them; all of them: benchmarks/rendering.py."""
    pages = [json.loads(line)["ground_truth"] for line in COLBENCH.read_text("utf-8").splitlines()[:8]]
    first = [rendered.png for rendered in renderer.render_all(pages)]
    with renderer_or_skip(workers=1, cache=0, timeout=60) as other:
        second = [rendered.png for rendered in other.render_all(pages)]
    assert None not in first and first == second
    assert len(set(first)) == len(set(pages))
    assert renderer.render(pages[0].replace("tailwind.min.css", "")).png != first[0]
