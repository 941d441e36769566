"""Pictures of untrusted web pages, drawn offline by a pool of headless browsers."""

import logging
import queue
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import sweet_rl
from sweet_rl.errors import UserError
from sweet_rl.rendering.failures import DrawingFailed
from sweet_rl.rendering.settings import MAX_CHARACTERS, Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rendered:
    """A page's picture, or why there is none.

    `png` is None exactly when `failure` is given: {"kind": one of "empty", "too_large", "timeout", "crashed",
    "memory", "message": what happened}. `width` and `height` are the picture's pixels (0 without one). `boxes` is
    given when the layout was asked for; `grading.pages.layout.boxes` describes it.
    """

    png: bytes | None
    width: int
    height: int
    failure: dict | None
    boxes: list[dict] | None


class PageRenderer:
    """Draws pages in `workers` browsers, which start when first needed and are replaced when they break.

    To be used as a context manager, or closed by `close()`. `render` may be called from several threads at once.
    """

    def __init__(
        self,
        workers: int = 2,
        browser: str | None = None,
        width: int = 1280,
        height: int = 720,
        max_height: int = 8192,
        timeout: float = 15.0,
        javascript: bool = False,
        cache: int = 256,
    ) -> None:
        """
        Args:
            workers: browsers at once (0.3 to 0.5 GB of memory each).
            browser: "chromium", "firefox", or None for the first one found.
            width: of the viewport and of every picture, in pixels.
            height: of the viewport, and the least height of a picture.
            max_height: where the picture of a longer page is cut.
            timeout: seconds that a page may take, after which its browser is ended and the page failed.
            javascript: whether the page's own scripts run.
            cache: drawn pages that are kept in memory, by content.

        Raises UserError when there is no browser (with the command that installs one) or a setting is impossible.
        """
        for name, value in {"workers": workers, "width": width, "height": height, "timeout": timeout}.items():
            if value <= 0:
                raise UserError(f"{name} must be positive, not {value}.")
        if max_height < height or max_height > 16384 or width > 16384:
            raise UserError(f"max_height must lie between height ({height}) and 16384, and width below: {max_height}.")
        try:
            from sweet_rl.rendering.driver import find_browser
        except ImportError as error:
            raise UserError(
                f"Drawing pages needs a package that is not installed ({error.name}): pip install 'sweet_rl[frontend]'"
            ) from error
        self.browser, self._program = find_browser(browser)
        self.timeout, self.workers = timeout, workers
        self.settings = Settings(width, height, max_height, javascript)
        self._free: queue.LifoQueue = queue.LifoQueue()
        for _ in range(workers):
            self._free.put(None)
        self._cache: OrderedDict[tuple[str, bool], Future] = OrderedDict()
        self._cache_size, self._lock, self._closed = cache, threading.Lock(), False

    @cached_property
    def fingerprint(self) -> str:
        """All that decides what a page looks like: the browser and its version, our version, and the settings."""
        told = subprocess.run([self._program, "--version"], capture_output=True, text=True, timeout=60)
        return f"{self.browser} {told.stdout.strip()}, sweet_rl {sweet_rl.__version__}, {self.settings}"

    def render(self, html: str, layout: bool = False) -> Rendered:
        """The picture of a page, with its layout boxes when `layout`. The same page gives the same bytes.

        Blocks until the page is drawn or has failed. A page that cannot be drawn is a `Rendered` with its failure;
        an exception means that no page could be drawn here. Raises UserError for `layout` with Firefox, which does
        not tell its layout.
        """
        if layout and self.browser != "chromium":
            raise UserError(
                "Layout boxes are read from Chromium alone, and this renderer drives Firefox: use --browser chromium."
            )
        key = (html, layout)
        with self._lock:
            if self._closed:
                raise RuntimeError("This PageRenderer is closed.")
            future = self._cache.get(key)
            mine = future is None
            if mine:
                future = self._cache[key] = Future()
                while len(self._cache) > max(self._cache_size, 1):
                    self._cache.popitem(last=False)
            else:
                self._cache.move_to_end(key)
        if mine:
            try:
                rendered = self._draw(html, layout)
            except BaseException as error:
                self._forget(key, future)
                future.set_exception(error)
                raise
            if rendered.failure is not None or not self._cache_size:
                self._forget(key, future)  # a failure may be the machine's, and is tried again when asked again
            future.set_result(rendered)
        return future.result()

    def render_all(self, pages: Iterable[str], layout: bool = False) -> Iterator[Rendered]:
        """The pictures of many pages, in their order, `workers` at a time; at most 4 a worker are held ready."""
        with ThreadPoolExecutor(self.workers) as threads:
            waiting: list[Future] = []
            for page in pages:
                waiting.append(threads.submit(self.render, page, layout))
                if len(waiting) >= 4 * self.workers:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()

    def close(self) -> None:
        """Ends the browsers, those that are drawing as soon as their page is done."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for _ in range(self.workers):
            browser = self._free.get()
            if browser is not None:
                browser.end()

    def __enter__(self) -> "PageRenderer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forget(self, key: tuple[str, bool], future: Future) -> None:
        with self._lock:
            if self._cache.get(key) is future:
                del self._cache[key]

    def _draw(self, html: str, layout: bool) -> Rendered:
        if not html.strip():
            return _failed("empty", "the page has no text at all")
        if len(html) > MAX_CHARACTERS:
            return _failed("too_large", f"the page has {len(html):,} characters; at most {MAX_CHARACTERS:,} are drawn")
        browser = self._free.get()
        try:
            for attempt in (1, 2):  # a browser may break by itself once; a page that breaks two is at fault
                started = time.monotonic()
                if browser is None:
                    browser = self._start()
                deadline = time.monotonic() + self.timeout
                try:
                    drawing = browser.draw(html, layout, deadline)
                except DrawingFailed as error:
                    logger.info("a browser is replaced after %s: %s", error.kind, error.message)
                    browser.end()
                    browser = None
                    if error.kind == "crashed" and attempt == 1 and time.monotonic() - started < self.timeout / 2:
                        continue
                    return _failed(error.kind, error.message)
                except BaseException:
                    browser.end()
                    browser = None
                    raise
                return Rendered(drawing.png, drawing.width, drawing.height, None, drawing.boxes)
            raise AssertionError("unreachable")
        finally:
            self._free.put(browser)

    def _start(self):
        if self.browser == "chromium":
            from sweet_rl.rendering.chromium import Chromium

            return Chromium(self._program, self.settings)
        from sweet_rl.rendering.firefox import Firefox

        return Firefox(self._program, self.settings)


def _failed(kind: str, message: str) -> Rendered:
    return Rendered(None, 0, 0, {"kind": kind, "message": message}, None)
