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

from sweet_rl.isolation.rendering import fetch
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


def text_of(rendered):
    assert rendered.failure is None
    texts = rendered.layout["documents"][0]["layout"]["text"]
    return " ".join("".join(rendered.layout["strings"][number] for number in texts if number >= 0).split())


def test_a_page_is_drawn_at_the_set_width_with_tailwinds_colours_and_the_same_bytes_by_every_worker(renderer):
    rendered, *again = renderer.render_all([PAGE] * 4)
    assert rendered.failure is None and {other.png for other in again} == {rendered.png}
    assert size(rendered.png) == (rendered.width, rendered.height) == (1280, 720)
    assert pixel(rendered.png, 1000, 20) == (16, 185, 129)  # green-500 of Tailwind 2
    assert pixel(rendered.png, 1000, 600) == (243, 244, 246)  # gray-100


def test_the_browser_leaves_nothing_in_the_home_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv(fetch.FOLDER_VARIABLE, str(fetch.folder()))
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with renderer_or_skip(workers=1, browser="chromium", cache=0, timeout=60) as made:
        assert made.render(PAGE).failure is None
    assert list(tmp_path.iterdir()) == []


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
    from sweet_rl.isolation.rendering import outside

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


def test_scripts_run_when_asked_for_with_a_clock_that_stands():
    page = """<body><script>
    document.body.style.background = Date.now() % 2 ? 'red' : 'lime';
    document.body.append(Date.now(), ' ', Math.random(), ' ', performance.now(), ' ');
    document.body.append(crypto.getRandomValues(new Uint8Array(4)));
    let frames = [Date.now()];
    const frame = () => { frames.push(Date.now()); requestAnimationFrame(frame) };
    requestAnimationFrame(frame);
    const uneven = () => frames.filter((time, n) => n && time - frames[n - 1] != 16).length;
    setTimeout(() => document.body.append(' late ', frames.length, ' ', uneven(), ' ', Date.now()), 1000);
    </script>"""
    photographed = """<body style="background:#0f0;height:1500px"><script>
    addEventListener('resize', () => { document.body.style.background = 'red' });
    </script>"""
    settings = dict(workers=2, width=500, height=200, javascript=True, timeout=60, cache=0)
    with renderer_or_skip(browser="chromium", **settings) as scripted:
        drawn = list(scripted.render_all([page] * 4, layout=True))
        assert pixel(scripted.render(photographed).png, 200, 100) == (0, 255, 0), "a script saw the picture being taken"
    text, *others = map(text_of, drawn)
    assert others == [text] * 3
    assert len({rendered.png for rendered in drawn}) == 1, "the texts are the same, the pixels are not"
    assert text.startswith("1700000000000 0.") and text.endswith(" late 63 0 1700000001000")


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


def test_a_page_that_takes_too_long_fails_by_its_own_doing_and_leaves_the_pool_going(alone):
    before, alone.timeout = alone.render(PAGE).png, 1.0
    failed = alone.render("<div>" * 60_000)
    alone.timeout = 60.0
    assert (failed.png, failed.width, failed.layout) == (None, 0, None)
    assert failed.failure["kind"] == "timeout"
    assert alone.render(PAGE).png == before


def test_a_page_on_a_machine_that_stands_still_is_a_failure_of_the_machine(alone):
    before = alone.render(PAGE).png
    worker = alone._free.get()
    start = worker._start

    def start_and_stop():
        browser = start()
        for process in browser.processes():
            process.suspend()
        return browser

    worker.end()
    worker._start, alone.timeout = start_and_stop, 0.5
    alone._free.put(worker)
    failed = alone.render(PAGE)
    worker._start, alone.timeout = start, 60.0
    assert failed.png is None and failed.failure["kind"] == "machine"
    assert alone.render(PAGE).png == before


def test_browsers_end_with_a_process_that_is_killed_and_their_files_go():
    psutil = pytest.importorskip("psutil", reason="pages need: pip install -e '.[frontend]'")
    renderer_or_skip()
    from sweet_rl.isolation.rendering.driver import LONGEST_TEMPORARY

    program = (
        "from sweet_rl.isolation.rendering.renderer import PageRenderer\nimport time\n"
        "r = PageRenderer(1)\nr.render('<p>')\n"
        "print('drawn', flush=True)\ntime.sleep(60)"
    )
    # The longest path of a temporary folder with which Chromium starts in it.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="x" * (LONGEST_TEMPORARY - len("/tmp/") - 8)) as folder:
        where = {**os.environ, "TMPDIR": folder}
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=where)
        assert process.stdout.readline() == "drawn\n"
        browsers = psutil.Process(process.pid).children(recursive=True)
        assert len(browsers) > 2 and os.listdir(folder)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _, alive = psutil.wait_procs(browsers, timeout=120)
        assert [left for left in alive if left.status() != psutil.STATUS_ZOMBIE] == []
        deadline = time.monotonic() + 120
        while (left := os.listdir(folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == []


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
