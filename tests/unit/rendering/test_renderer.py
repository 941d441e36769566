"""The pool of browsers, its cache, and whose fault a failure is; the browsers are made here."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("selenium", reason="pages need: pip install -e '.[frontend]'")

from sweet_rl.rendering import browser  # noqa: E402
from sweet_rl.rendering.renderer import PLAIN_PAGE, DrawingFailed, PageRenderer, Rendered  # noqa: E402
from sweet_rl.runs.errors import UserError  # noqa: E402

SLOW = DrawingFailed("timeout", "too slow")
DIED = DrawingFailed("crashed", "the browser closed the connection")


class Machine:
    """Makes browsers that behave as `script` says: page -> results of one drawing after another, the last for ever."""

    def __init__(self, **script):
        self.script = {name: list(results) for name, results in script.items()}
        self.plain = "drawn"  # what a plain page gives
        self.drawn: list[tuple[str, float]] = []  # page, limit
        self.started = self.ended = 0
        self.lock = threading.Lock()

    def renderer(self, monkeypatch, **settings) -> PageRenderer:
        monkeypatch.setattr(browser, "find_browser", lambda: "/bin/true")
        monkeypatch.setattr(browser, "Browser", lambda *_: Browser(self))
        return PageRenderer(**{"cache": 0, "timeout": 5.0, **settings})


class Browser:
    def __init__(self, machine):
        self.machine, self.broken = machine, False
        machine.started += 1

    def draw(self, page, limit):
        assert not self.broken, "a browser is used after a failure"
        with self.machine.lock:
            self.machine.drawn.append(("plain" if page == PLAIN_PAGE else page, limit))
            results = [self.machine.plain] if page == PLAIN_PAGE else self.machine.script.get(page, ["drawn"])
            result = results.pop(0) if len(results) > 1 else results[0]
        if isinstance(result, Exception):
            self.broken = True
            raise result
        return Rendered(page.encode(), 10, 20, None)

    def end(self):
        self.machine.ended += 1


@pytest.mark.parametrize("failure", [SLOW, DIED])
def test_a_page_that_fails_is_drawn_once_more_by_a_fresh_browser_with_twice_the_time(monkeypatch, failure):
    machine = Machine(page=[failure, "drawn"])
    with machine.renderer(monkeypatch, workers=2) as pages:
        assert pages.render("page") == Rendered(b"page", 10, 20, None)
    assert machine.drawn == [("page", 5.0), ("page", 10.0)]
    assert machine.started == machine.ended == 2


def test_a_page_that_fails_twice_while_a_plain_page_is_drawn_is_at_fault(monkeypatch):
    machine = Machine(page=[SLOW, DIED])
    with machine.renderer(monkeypatch, workers=1) as pages:
        assert pages.render("page").failure == {"kind": "crashed", "message": str(DIED)}
        assert machine.drawn == [("page", 5.0), ("page", 10.0), ("plain", 10.0)]
        assert machine.started == 3, "the plain page has a browser that the page never saw"
        assert pages.render("next").png == b"next"


@pytest.mark.parametrize("plain", [SLOW, DIED])
def test_a_machine_that_does_not_draw_a_plain_page_either_is_at_fault(monkeypatch, plain):
    machine = Machine(page=[SLOW])
    machine.plain = plain
    with machine.renderer(monkeypatch, workers=1) as pages:
        failure = pages.render("page").failure
    assert failure["kind"] == "machine" and "too slow" in failure["message"] and str(plain) in failure["message"]


def test_a_page_that_leaves_its_address_is_refused_at_once(monkeypatch):
    machine = Machine(page=[DrawingFailed("left", "the page left its address")])
    with machine.renderer(monkeypatch, workers=1) as pages:
        assert pages.render("page").failure["kind"] == "left"
    assert machine.drawn == [("page", 5.0)]


def test_an_unexpected_error_ends_the_browser_and_frees_the_worker(monkeypatch):
    machine = Machine(page=[ZeroDivisionError(), "drawn"])
    with machine.renderer(monkeypatch, workers=1) as pages:
        with pytest.raises(ZeroDivisionError):
            pages.render("page")
        assert pages.render("page").png == b"page"


@pytest.mark.parametrize("page, kind", [("", "empty"), (" \n", "empty"), ("x" * 4_000_001, "too_large")])
def test_a_page_that_cannot_be_drawn_says_why_without_a_browser(monkeypatch, page, kind):
    machine = Machine()
    with machine.renderer(monkeypatch) as pages:
        rendered = pages.render(page)
    assert (rendered.png, rendered.width, rendered.height) == (None, 0, 0)
    assert rendered.failure["kind"] == kind and rendered.failure["message"]
    assert machine.started == 0


def test_equal_pages_are_drawn_once_and_failures_are_tried_again(monkeypatch):
    machine = Machine()

    def drawn():
        return [page for page, _ in machine.drawn]

    with machine.renderer(monkeypatch, workers=2, cache=2) as pages:
        with ThreadPoolExecutor(6) as threads:
            pictures = list(threads.map(pages.render, ["a"] * 6))
        assert drawn() == ["a"] and all(picture is pictures[0] for picture in pictures)
        machine.script["bad"] = [DrawingFailed("left", "the page left its address")]
        pages.render("bad"), pages.render("bad")
        assert drawn() == ["a", "bad", "bad"]
        pages.render("b"), pages.render("c"), pages.render("b"), pages.render("a")
        assert drawn()[3:] == ["b", "c", "a"], "the pages that were unused for longest leave a full cache"
    with pytest.raises(RuntimeError, match="closed"):
        pages.render("a")


def test_without_a_browser_the_message_says_how_to_install_one(monkeypatch):
    monkeypatch.setattr(browser, "PROGRAMS", ("no-such-browser",))
    with pytest.raises(UserError, match="apt-get install .*chromium-driver"):
        PageRenderer()
