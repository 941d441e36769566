"""The pool of browsers, its cache, and whose fault a failure is; the browsers are made here."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("selenium", reason="pages need: pip install -e '.[frontend]'")

from sweet_rl.rendering import driver, renderer  # noqa: E402
from sweet_rl.rendering.browser import DrawingFailed, Rendered  # noqa: E402
from sweet_rl.rendering.renderer import ALONE_PATIENCE, PLAIN_PAGE, PageRenderer  # noqa: E402
from sweet_rl.runs.errors import UserError  # noqa: E402

SLOW = DrawingFailed("timeout", "too slow")
ENDLESS = DrawingFailed("timeout", "it computed all the time", by_page=True)
DIED = DrawingFailed("crashed", "the browser closed the connection")


class Machine:
    """Makes browsers that behave as `script` says: page -> results of one drawing after another, the last for ever."""

    def __init__(self, **script):
        self.script = {name: list(results) for name, results in script.items()}
        self.plain = ["drawn"]  # what a plain page gives
        self.drawn: list[tuple[str, float, float]] = []  # page, limit, patience
        self.running = self.most = self.started = self.ended = 0
        self.refuses_to_start = False
        self.lock = threading.Lock()

    def renderer(self, monkeypatch, **settings) -> PageRenderer:
        monkeypatch.setattr(driver, "find_browser", lambda name: (name or "chromium", "/bin/true"))
        monkeypatch.setattr("sweet_rl.rendering.chromium.Chromium", lambda program, settings: Browser(self))
        return PageRenderer(**{"cache": 0, "timeout": 5.0, **settings})


class Browser:
    def __init__(self, machine):
        if machine.refuses_to_start:
            raise UserError("chromium was found but did not start")
        self.machine, self.broken = machine, False
        machine.started += 1

    def draw(self, page, with_layout, limit, patience=1.0):
        machine = self.machine
        assert not self.broken, "a browser is used after a failure"
        with machine.lock:
            machine.running += 1
            machine.most = max(machine.most, machine.running)
            machine.drawn.append((page, limit, patience))
            if patience > 1 or page == PLAIN_PAGE:
                assert machine.running == 1, "a page drawn alone is not alone"
                assert machine.started - machine.ended == 1, "another browser runs beside a page drawn alone"
        try:
            results = machine.plain if page == PLAIN_PAGE else machine.script.get(page, ["drawn"])
            result = results.pop(0) if len(results) > 1 else results[0]
            if isinstance(result, Exception):
                self.broken = True
                raise result
            return Rendered(page.encode(), 10, 20, None, {} if with_layout else None)
        finally:
            with machine.lock:
                machine.running -= 1

    def end(self):
        self.machine.ended += 1


def kinds(machine: Machine) -> list[str]:
    return ["plain" if page == PLAIN_PAGE else page for page, _, _ in machine.drawn]


@pytest.mark.parametrize("failure", [SLOW, DIED])
def test_a_page_whose_failure_may_be_the_machines_is_drawn_again_alone_by_a_fresh_browser(monkeypatch, failure):
    machine = Machine(page=[failure, "drawn"])
    with machine.renderer(monkeypatch, workers=2) as pages:
        assert pages.render("page") == Rendered(b"page", 10, 20, None, None)
    assert machine.drawn == [("page", 5.0, 1.0), ("page", 5.0, ALONE_PATIENCE)]
    assert machine.started == machine.ended == 2


@pytest.mark.parametrize("failures", [[SLOW, SLOW], [SLOW, DIED], [DIED, SLOW]])
def test_a_page_that_fails_twice_while_a_plain_page_is_drawn_is_at_fault(monkeypatch, failures):
    machine = Machine(page=failures)
    with machine.renderer(monkeypatch, workers=1) as pages:
        assert pages.render("page").failure == {"kind": failures[1].kind, "message": failures[1].message}
        assert kinds(machine) == ["page", "page", "plain"]
        assert machine.drawn[2] == (PLAIN_PAGE, 5.0, 1.0)
        assert machine.started == 3, "the plain page has a browser that the page never saw"
        assert pages.render("next").png == b"next"


@pytest.mark.parametrize("plain", [SLOW, ENDLESS, DIED])
def test_a_machine_that_does_not_draw_a_plain_page_either_is_at_fault(monkeypatch, plain):
    machine = Machine(page=[SLOW])
    machine.plain = [plain]
    with machine.renderer(monkeypatch, workers=1) as pages:
        failure = pages.render("page").failure
    assert failure["kind"] == "machine" and "too slow" in failure["message"] and plain.message in failure["message"]


@pytest.mark.parametrize("kind", ["timeout", "memory", "too_large"])
@pytest.mark.parametrize("first", [[], [SLOW], [DIED]])
def test_a_page_that_certainly_failed_by_itself_is_never_the_machines_failure(monkeypatch, kind, first):
    machine = Machine(page=[*first, DrawingFailed(kind, "own", by_page=True)])
    machine.plain = [SLOW]
    with machine.renderer(monkeypatch, workers=1) as pages:
        assert pages.render("page").failure == {"kind": kind, "message": "own"}
    assert kinds(machine) == ["page"] * (len(first) + 1)


def test_nothing_else_is_drawn_beside_a_page_alone_and_all_other_pages_are_drawn(monkeypatch):
    script = {f"bad {i}": [SLOW] for i in range(6)} | {f"slow {i}": [SLOW, "drawn"] for i in range(6)}
    machine = Machine(**script)
    names = [f"{word} {i}" for i in range(6) for word in ("bad", "good", "slow", "fine")]
    with machine.renderer(monkeypatch, workers=3) as pages:
        drawn = list(pages.render_all(names))
    assert [one.png for one in drawn] == [None if name.startswith("bad") else name.encode() for name in names]
    assert machine.started == machine.ended


def test_browsers_that_never_started_are_an_error_and_one_that_does_not_start_again_is_the_machines(monkeypatch):
    machine = Machine(page=["drawn", DIED])
    machine.refuses_to_start = True
    with machine.renderer(monkeypatch, workers=1) as pages:
        with pytest.raises(UserError, match="did not start"):
            pages.render("page")
        machine.refuses_to_start = False
        assert pages.render("page").png
        machine.refuses_to_start = True
        failure = pages.render("page").failure
        assert failure["kind"] == "machine" and "did not start" in failure["message"]
        machine.refuses_to_start = False
        machine.script["page"] = ["drawn"]
        assert pages.render("page").png


def test_an_unexpected_error_ends_the_browser_and_frees_the_worker(monkeypatch):
    machine = Machine(page=[ZeroDivisionError(), "drawn"])
    with machine.renderer(monkeypatch, workers=1) as pages:
        with pytest.raises(ZeroDivisionError):
            pages.render("page")
        assert pages.render("page").png == b"page"


@pytest.mark.parametrize(
    "page, kind",
    [("", "empty"), (" \n", "empty"), ("x" * 4_000_001, "too_large"), ("<template ShadowRootMode=closed>", "moving")],
)
def test_a_page_that_cannot_be_drawn_says_why_without_a_browser(monkeypatch, page, kind):
    machine = Machine()
    with machine.renderer(monkeypatch) as pages:
        rendered = pages.render(page)
    assert (rendered.png, rendered.width, rendered.height, rendered.layout) == (None, 0, 0, None)
    assert rendered.failure["kind"] == kind and rendered.failure["message"]
    assert machine.started == 0


def test_equal_pages_are_drawn_once_and_failures_are_tried_again(monkeypatch):
    machine = Machine()
    with machine.renderer(monkeypatch, workers=2, cache=2) as pages:
        with ThreadPoolExecutor(6) as threads:
            pictures = list(threads.map(pages.render, ["a"] * 6))
        assert kinds(machine) == ["a"] and all(picture is pictures[0] for picture in pictures)
        assert pages.render("a", layout=True).layout == {}
        machine.script["bad"] = [ENDLESS]
        pages.render("bad"), pages.render("bad")
        assert kinds(machine) == ["a", "a", "bad", "bad"]
        pages.render("b"), pages.render("c"), pages.render("b"), pages.render("a")
        assert kinds(machine)[4:] == ["b", "c", "a"], "the pages that were unused for longest leave a full cache"
    with pytest.raises(RuntimeError, match="closed"):
        pages.render("a")


def test_many_pages_come_in_order_and_only_some_are_read_ahead(monkeypatch):
    read = []

    def pages_of():
        for number in range(30):
            read.append(number)
            yield f"page {number}"

    with Machine().renderer(monkeypatch, workers=2) as pages:
        drawn = pages.render_all(pages_of())
        assert next(drawn).png == b"page 0" and len(read) == 8
        assert [one.png for one in drawn] == [b"page %d" % number for number in range(1, 30)]


def test_a_picture_is_named_by_browser_version_and_settings(monkeypatch):
    names = set()
    for settings in ({}, {"width": 640}, {"height": 640}, {"max_height": 999}, {"javascript": True}):
        with Machine().renderer(monkeypatch, **settings) as pages:
            names.add(pages.fingerprint)
    assert len(names) == 5 and all(name.startswith("chromium ") for name in names)


def test_a_picture_is_named_by_the_fonts_of_the_machine_which_is_never_the_same_if_it_draws_none(monkeypatch):
    names = []
    for drawn in (b"here", b"here", b"with other fonts", None, None):
        with Machine().renderer(monkeypatch) as pages:
            monkeypatch.setattr(pages, "render", lambda page, png=drawn: Rendered(png, 9, 9, None, None))
            names.append(pages.fingerprint)
            assert names[-1] == pages.fingerprint
    assert names[0] == names[1] and len(set(names)) == 4


def test_firefox_has_no_layout(monkeypatch):
    with Machine().renderer(monkeypatch, browser="firefox") as pages:
        with pytest.raises(UserError, match="--browser chromium"):
            pages.render("page", layout=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"browser": "lynx"},
        {"workers": 0},
        {"timeout": 0.0},
        {"max_height": 100},
        {"max_height": 16385},
        {"width": 16385},
    ],
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(UserError, match=next(iter(settings))):
        PageRenderer(**settings)


def test_without_selenium_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "selenium", None)
    monkeypatch.delitem(sys.modules, "sweet_rl.rendering.driver", raising=False)
    with pytest.raises(UserError, match="selenium.*pip install"):
        PageRenderer()


def test_without_a_browser_the_message_says_how_to_install_one(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(driver, "PLACES", {"chromium": (), "firefox": ()})
    for name, package in ((None, "chromium-driver"), ("firefox", "firefox-esr")):
        with pytest.raises(UserError, match=f"apt-get install .*{package}"):
            driver.find_browser(name)


def test_without_tailwinds_files_no_renderer_is_made(monkeypatch):
    def fails():
        raise UserError("run: python -m sweet_rl.rendering.fetch")

    monkeypatch.setattr(renderer.fetch, "fetch", fails)
    with pytest.raises(UserError, match="sweet_rl.rendering.fetch"):
        Machine().renderer(monkeypatch)
