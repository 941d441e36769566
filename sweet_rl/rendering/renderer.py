"""Pictures of untrusted web pages, drawn offline by a pool of headless browsers.

A page that fails, by its time limit or with its browser, is drawn once more, by a fresh browser and with twice the
time. If that fails too, another fresh browser draws a plain page. If it cannot do that either, the failure is of kind
"machine"; otherwise the page is at fault. No page can disturb this last test, so none can blame the machine.
"""

import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from sweet_rl.rendering.rendered import DrawingFailed, Rendered
from sweet_rl.rendering.server import PageServer
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.errors import UserError

if TYPE_CHECKING:
    from sweet_rl.rendering.browser import Browser

MAX_CHARACTERS = 4_000_000  # of a page's HTML
PLAIN_PAGE = """<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">
<body class="bg-gray-100"><h1 class="text-3xl p-4">A plain page</h1><p class="text-gray-600">Some words about it."""

logger = logging.getLogger(__name__)


class PageRenderer(AbstractContextManager):
    """Draws pages in `workers` browsers, which start when they are first needed and are replaced when they break.

    To be used as a context manager, or closed by `close()`. Several threads may call `render` at the same time.
    """

    def __init__(
        self,
        workers: int = 2,
        width: int = 1280,
        height: int = 720,
        max_height: int = 8192,
        timeout: float = 15.0,
        cache: int = 256,
    ) -> None:
        """
        Args:
            workers: Number of browsers that draw at the same time (0.3 to 0.5 GB of memory each).
            width: Width of the viewport and of every picture, in pixels.
            height: Height of the viewport, and the least height of a picture.
            max_height: Height at which the picture of a longer page is cut.
            timeout: Seconds that a page may take.
            cache: Number of drawn pages that are kept in memory, by content.

        Raises:
            UserError: The browser is not installed (with the command that installs it), or a setting is impossible.
        """
        for name, value in {"workers": workers, "width": width, "height": height, "timeout": timeout}.items():
            if value <= 0:
                raise UserError(f"{name} must be positive, not {value}.")
        if max_height < height or max_height > 16384 or width > 16384:
            raise UserError(f"max_height must lie between height ({height}) and 16384, and width below: {max_height}.")
        from sweet_rl.rendering.browser import Browser, find_browser

        program = find_browser()
        self.browser, self.timeout, self.workers = "chromium", timeout, workers
        self._server = PageServer()
        self._free: queue.LifoQueue[_Worker] = queue.LifoQueue()
        for _ in range(workers):
            self._free.put(_Worker(lambda: Browser(program, width, height, max_height, self._server)))
        self._cache: OrderedDict[str, Future[Rendered]] = OrderedDict()
        self._cache_size, self._lock, self._closed = cache, threading.Lock(), False

    @classmethod
    def from_settings(cls, pages: BrowserSettings, **others: Any) -> Self:
        """A renderer with the settings of a command line, and with other arguments of this class."""
        return cls(
            workers=pages.browser_workers,
            width=pages.page_width,
            height=pages.page_height,
            timeout=pages.page_timeout,
            **others,
        )

    def render(self, html: str) -> Rendered:
        """The picture of a page, or its failure if the page cannot be drawn.

        Raises:
            UserError: No browser starts on this machine.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("This PageRenderer is closed.")
            mine = html not in self._cache
            future = self._cache.setdefault(html, Future())
            self._cache.move_to_end(html)
            while len(self._cache) > max(self._cache_size, 1):
                self._cache.popitem(last=False)
        if mine:
            try:
                future.set_result(self._draw(html))
            except BaseException as error:
                future.set_exception(error)
            if not self._cache_size or future.exception() or future.result().failure:
                with self._lock:  # the next request tries again
                    self._cache.pop(html, None)
        return future.result()

    def render_all(self, pages: Iterable[str]) -> Iterator[Rendered]:
        """The pictures of many pages, in order; reads at most 4 pages per worker ahead."""
        with ThreadPoolExecutor(self.workers) as threads:
            waiting: list[Future] = []
            for page in pages:
                waiting.append(threads.submit(self.render, page))
                if len(waiting) >= 4 * self.workers:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()

    def close(self) -> None:
        """End the browsers; those that draw finish their page first."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for _ in range(self.workers):
            self._free.get().end()
        self._server.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _draw(self, html: str) -> Rendered:
        if not html.strip():
            return _failed("empty", "the page has no text at all")
        if len(html) > MAX_CHARACTERS:
            return _failed("too_large", f"the page has {len(html):,} characters; at most {MAX_CHARACTERS:,} are drawn")
        worker = self._free.get()
        try:
            for limit in (self.timeout, 2 * self.timeout):
                try:
                    return worker.draw(html, limit)
                except DrawingFailed as error:
                    failed = error
                if failed.kind == "left":
                    return _failed(failed.kind, str(failed))
                logger.info("a page was not drawn: %s: %s", failed.kind, failed)
            try:
                worker.draw(PLAIN_PAGE, 2 * self.timeout)
            except DrawingFailed as plain:
                return _failed("machine", f"{failed}; a plain page was not drawn either: {plain}")
            return _failed(failed.kind, str(failed))
        finally:
            self._free.put(worker)


class _Worker:
    """At most one browser, which starts when it is needed and is ended by any failure."""

    def __init__(self, start: Callable[[], "Browser"]) -> None:
        self._start = start
        self.browser: Browser | None = None

    def draw(self, html: str, limit: float) -> Rendered:
        try:
            if self.browser is None:
                self.browser = self._start()
            return self.browser.draw(html, limit)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        if self.browser is not None:
            self.browser.end()
            self.browser = None


def _failed(kind: str, message: str) -> Rendered:
    return Rendered(None, 0, 0, {"kind": kind, "message": message})
