"""Pictures of untrusted web pages, drawn offline by a pool of headless browsers.

Whose fault a missing picture is: a page is at fault if it is empty or too large, uses too much memory, or spends its
time limit as CPU time. Any other timeout, and the end of a browser, may be the machine's doing. Such a page is drawn
again alone: by a fresh browser, while no other browser of this renderer runs, with `ALONE_PATIENCE` times its limit. If
that fails too, another fresh browser draws a plain page. If it cannot do that within the limit, the failure is of kind
"machine"; otherwise the page is at fault. A page has no part in the last test, so it cannot pass its failure off as
the machine's.
"""

import hashlib
import logging
import os
import queue
import subprocess
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import sweet_rl
from sweet_rl.rendering import fetch, moving
from sweet_rl.rendering.browser import MAX_CHARACTERS, DrawingFailed, Rendered, Settings
from sweet_rl.rendering.settings import BrowserSettings
from sweet_rl.runs.errors import UserError, extras_named

if TYPE_CHECKING:
    from sweet_rl.rendering.chromium import Chromium
    from sweet_rl.rendering.firefox import Firefox

ALONE_PATIENCE = 4.0  # times its time limit that a page gets when it is drawn alone
PLAIN_PAGE = """<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">
<body class="bg-gray-100"><h1 class="text-3xl p-4">A plain page</h1><p class="text-gray-600">Some words about it."""
_FAMILIES = (
    "sans-serif", "serif", "monospace", "cursive", "system-ui", "Arial", "Helvetica", "Georgia", "Times New Roman",
    "Verdana", "Courier New", "Segoe UI", "Roboto", "Open Sans", "Lato", "Montserrat", "Poppins", "Inter", "Noto Sans",
)  # fmt: skip
SAMPLE = "".join(f"<p style='font: 20px {name}, serif'>Sample 1 é Ж 中 あ 한 ع ★ 😀" for name in _FAMILIES)

logger = logging.getLogger(__name__)


class PageRenderer(AbstractContextManager):
    """Draws pages in `workers` browsers, which start when they are first needed and are replaced when they break.

    To be used as a context manager, or closed by `close()`. Several threads may call `render` at the same time.
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
            workers: Number of browsers that draw at the same time (0.3 to 0.5 GB of memory each).
            browser: "chromium", "firefox", or None for the first one found.
            width: Width of the viewport and of every picture, in pixels.
            height: Height of the viewport, and the least height of a picture.
            max_height: Height at which the picture of a longer page is cut.
            timeout: Seconds that a page may take.
            javascript: Whether the page's own scripts run.
            cache: Number of drawn pages that are kept in memory, by content.

        Raises:
            UserError: a package or the browser is not installed, Tailwind CSS cannot be fetched (each with the command
                that installs it), or a setting is impossible.
        """
        for name, value in {"workers": workers, "width": width, "height": height, "timeout": timeout}.items():
            if value <= 0:
                raise UserError(f"{name} must be positive, not {value}.")
        if max_height < height or max_height > 16384 or width > 16384:
            raise UserError(f"max_height must lie between height ({height}) and 16384, and width below: {max_height}.")
        with extras_named():
            from sweet_rl.rendering.driver import find_browser
        self.browser, self._program = find_browser(browser)
        self.timeout, self.workers = timeout, workers
        self.settings = Settings(width, height, max_height, javascript)
        fetch.fetch()
        self._free: queue.LifoQueue[_Worker] = queue.LifoQueue()
        for _ in range(workers):
            self._free.put(_Worker(self._start))
        self._alone = threading.Lock()
        self._has_started = False
        self._cache: OrderedDict[tuple[str, bool], Future] = OrderedDict()
        self._cache_size, self._lock, self._closed = cache, threading.Lock(), False

    @classmethod
    def from_settings(cls, pages: BrowserSettings, **others: Any) -> Self:
        """A renderer with the settings of a command line, and with other arguments of this class."""
        return cls(
            workers=pages.browser_workers,
            browser=pages.browser,
            width=pages.page_width,
            height=pages.page_height,
            timeout=pages.page_timeout,
            **others,
        )

    @cached_property
    def fingerprint(self) -> str:
        """What a picture depends on beside the page: browser, versions, settings, and how this machine draws a sample
        of fonts. Another one each time if it cannot draw it."""
        version = subprocess.run([self._program, "--version"], capture_output=True, text=True, timeout=60)
        sample = hashlib.sha256(self.render(SAMPLE).png or os.urandom(32)).hexdigest()[:16]
        versions = f"{version.stdout.strip()}, sweet_rl {sweet_rl.__version__}"
        return f"{self.browser} {versions}, {self.settings}, fonts {sample}"

    def render(self, html: str, layout: bool = False) -> Rendered:
        """The picture of a page. The same page gives the same bytes.

        Args:
            html: The page.
            layout: Whether its layout is wanted.

        Returns:
            The picture, or its failure if the page cannot be drawn.

        Raises:
            UserError: `layout` with Firefox, which has none, or no browser starts on this machine.
        """
        if layout and self.browser != "chromium":
            raise UserError(
                "A layout is read from Chromium alone, and this renderer drives Firefox: use --browser chromium."
            )
        key = (html, layout)
        with self._lock:
            if self._closed:
                raise RuntimeError("This PageRenderer is closed.")
            mine = key not in self._cache
            future = self._cache.setdefault(key, Future())
            if mine:
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
                self._forget(key, future)  # the next request tries again
            future.set_result(rendered)
        return future.result()

    def render_all(self, pages: Iterable[str], layout: bool = False) -> Iterator[Rendered]:
        """The pictures of many pages, in order; reads at most 4 pages per worker ahead."""
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
        with self._all_workers() as workers:
            for worker in workers:
                worker.end()

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
        if moving.has_shadow_tree(html):
            return moving.refusal("the page has a shadow tree, in which movement cannot be stopped")
        worker = self._free.get()
        try:
            return worker.draw(html, layout, self.timeout)
        except DrawingFailed as error:
            if error.by_page:
                return _failed(error.kind, error.message)
            logger.info("a page is drawn again alone after %s: %s", error.kind, error.message)
        finally:
            self._free.put(worker)
        return self._draw_alone(html, layout)

    def _draw_alone(self, html: str, layout: bool) -> Rendered:
        with self._all_workers() as workers:
            for worker in workers:  # whatever earlier pages left running in any browser ends here
                worker.end()
            worker = workers[0]
            try:
                return worker.draw(html, layout, self.timeout, ALONE_PATIENCE)
            except DrawingFailed as error:
                failed = error
            if failed.by_page:
                return _failed(failed.kind, failed.message)
            try:
                worker.draw(PLAIN_PAGE, False, self.timeout)
            except DrawingFailed as plain:
                message = f"{failed.message}; a plain page alone was not drawn either: {plain.message}"
                return _failed("machine", message)
            return _failed(failed.kind, failed.message)

    @contextmanager
    def _all_workers(self) -> Iterator[list["_Worker"]]:
        """Holds every worker, so that no other page is drawn meanwhile."""
        with self._alone:  # two threads that hold some workers each would wait for ever
            workers = [self._free.get() for _ in range(self.workers)]
            try:
                yield workers
            finally:
                for worker in workers:
                    self._free.put(worker)

    def _start(self) -> "Chromium | Firefox":
        if self._closed:
            raise RuntimeError("This PageRenderer is closed.")
        from sweet_rl.rendering.chromium import Chromium
        from sweet_rl.rendering.firefox import Firefox

        kind = Chromium if self.browser == "chromium" else Firefox
        try:
            browser = kind(self._program, self.settings)
        except UserError as error:
            if not self._has_started:
                raise
            raise DrawingFailed("crashed", f"a browser did not start again: {error}") from error
        self._has_started = True
        return browser


class _Worker:
    """At most one browser, which starts when it is needed and is ended by any failure."""

    def __init__(self, start: Callable[[], "Chromium | Firefox"]) -> None:
        self._start = start
        self.browser: Chromium | Firefox | None = None

    def draw(self, html: str, layout: bool, limit: float, patience: float = 1.0) -> Rendered:
        """The page drawn. Raises DrawingFailed; `limit` and `patience` are those of `Chromium.draw`."""
        try:
            if self.browser is None:
                self.browser = self._start()
            return self.browser.draw(html, layout, limit, patience)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        if self.browser is not None:
            self.browser.end()
            self.browser = None


def _failed(kind: str, message: str) -> Rendered:
    return Rendered(None, 0, 0, {"kind": kind, "message": message}, None)
