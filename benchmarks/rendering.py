"""Pages drawn per second, compared with the released way.

    python benchmarks/rendering.py [--input_path frontend_dev.jsonl] [--num_pages 60]

The released way is one driver that draws one page at a time: the page goes to it through an HTML file, the picture
comes back through a PNG file. It gets what a warm network cache would give it: Tailwind's stylesheet and the pictures
as files beside the page. Before anything is timed, the pages are drawn by two renderers, and with the whole stylesheet:
all three must give the same bytes. The pages are those of `--input_path` (field `ground_truth`), or made here from
Tailwind's classes.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from PIL import Image  # noqa: E402
from selenium import webdriver  # noqa: E402

from sweet_rl.rendering import tailwind  # noqa: E402
from sweet_rl.rendering.browser import find_browser  # noqa: E402
from sweet_rl.rendering.renderer import PageRenderer  # noqa: E402
from sweet_rl.rendering.substitutes import substitute  # noqa: E402
from sweet_rl.runs.cli import run  # noqa: E402
from sweet_rl.runs.errors import UserError  # noqa: E402

TAILWIND = "https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css"
COLOURS = ("gray", "red", "yellow", "green", "blue", "indigo", "purple", "pink")
ADDRESS = re.compile(r"https://[^\s\"'()<>]+")


def made_page(rng: random.Random) -> str:
    """A page like the benchmark's: a bar, a picture, some cards, a footer."""
    first, second = rng.sample(COLOURS, 2)
    cards = "".join(
        f'<div class="bg-white rounded-lg shadow-{rng.choice(("sm", "md", "lg"))} p-{rng.randint(2, 8)} w-1/3">'
        f'<h3 class="text-xl font-bold text-{second}-700">Card {number}</h3><p class="text-gray-600">'
        f"{'Some words about it. ' * rng.randint(2, 12)}</p></div>"
        for number in range(3)
    )
    return (
        f'<html><link href="{TAILWIND}" rel="stylesheet"><body class="bg-{first}-100">'
        f'<header class="bg-{second}-500 text-white p-4 flex justify-between"><h1 class="text-3xl font-bold">Shop</h1>'
        '<nav class="space-x-4"><a href="#" class="hover:underline">Home</a><a href="#">About</a></nav></header>'
        f'<img class="w-full h-{rng.choice((48, 64, 96))} object-cover" src="https://picsum.photos/id/48/1200/400">'
        f'<main class="flex space-x-{rng.randint(2, 8)} p-8">{cards}</main>'
        f'<footer class="bg-{first}-800 text-white p-4 text-center">Contact</footer></body></html>'
    )


def pages_as_files(pages: list[str], folder: Path) -> list[Path]:
    """The pages as HTML files whose outside references are files too."""
    (folder / "tailwind.css").write_bytes(tailwind.stylesheet())
    paths = []

    def local(found: re.Match) -> str:
        if "tailwind" in found[0]:
            return "tailwind.css"
        parts = urlsplit(found[0])
        picture = substitute(parts.netloc, parts.path, parts.query)
        if picture is None:
            return found[0]
        name = f"{abs(hash(found[0]))}.svg"
        (folder / name).write_bytes(picture.body)
        return name

    for number, page in enumerate(pages):
        paths.append(folder / f"{number}.html")
        paths[-1].write_text(ADDRESS.sub(local, page), encoding="utf-8")
    return paths


def draw_through_files(selenium, path: Path, width: int = 1280, height: int = 720) -> bytes:
    """The released way with one page: a full-page picture of an HTML file, through a PNG file."""
    selenium.set_window_size(width, height)
    selenium.get(path.as_uri())
    content = selenium.execute_script("return document.documentElement.scrollHeight")
    selenium.set_window_size(width, min(max(content, height), 8192))
    with tempfile.NamedTemporaryFile(suffix=".png") as picture:
        selenium.save_screenshot(picture.name)
        Image.open(picture.name).load()
        return Path(picture.name).read_bytes()


def released(paths: list[Path]) -> Iterator[bytes]:
    options = webdriver.ChromeOptions()
    options.binary_location = find_browser()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    with webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver"))) as driver:
        yield from (draw_through_files(driver, path) for path in paths)


def pooled(pages: list[str], workers: int) -> Iterator[bytes]:
    with PageRenderer(workers, timeout=60, cache=0) as renderer:
        for number, rendered in enumerate(renderer.render_all(pages)):
            if rendered.png is None:
                raise UserError(f"Page {number} was not drawn: {rendered.failure}")
            yield rendered.png


def pages_per_second(draw: Callable[[], Iterator[bytes]], count: int, name: str) -> float:
    started = time.perf_counter()
    drawn = sum(1 for _ in draw())
    seconds = time.perf_counter() - started
    assert drawn == count
    print(f"{name:<58} {count / seconds:6.2f} pages/s  ({count} pages, {seconds:.1f} s with starts)", flush=True)
    return count / seconds


def main(input_path: str | None = None, num_pages: int = 60, workers: int = 2) -> None:
    """Args:
    input_path: task file with pages (JSONL, field `ground_truth`); None draws made pages.
    num_pages: pages to draw.
    workers: browsers of PageRenderer at the same time.
    """
    if input_path:
        lines = Path(input_path).read_text("utf-8").splitlines()[:num_pages]
        pages = [json.loads(line)["ground_truth"] for line in lines]
    else:
        pages = [made_page(random.Random(number)) for number in range(num_pages)]

    first, second = list(pooled(pages, workers)), list(pooled(pages, 1))
    with patch.object(tailwind, "stylesheet_for", lambda page: tailwind.stylesheet()):
        uncut = list(pooled(pages, 1))
    same = sum(a == b for a, b in zip(first, second, strict=True))
    exact = sum(a == b for a, b in zip(first, uncut, strict=True))
    print(f"the same bytes from other browsers: {same} of {len(pages)} pages; with the uncut stylesheet: {exact}")

    with tempfile.TemporaryDirectory() as name:
        paths = pages_as_files(pages, Path(name))
        slow = pages_per_second(lambda: released(paths), len(pages), "released way: one driver, files")
    one = pages_per_second(lambda: pooled(pages, 1), len(pages), "PageRenderer, 1 worker")
    ours = pages_per_second(lambda: pooled(pages, workers), len(pages), f"PageRenderer, {workers} workers")
    print(f"against one worker: {ours / one:.1f} times")
    print(f"against the released way: {ours / slow:.1f} times as many pages")


if __name__ == "__main__":
    run(main)
