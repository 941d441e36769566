"""The same page gives the same pixels, or is refused: no page gambles for its reward."""

import io
import time

import pytest

from tests.support.browsers import renderer_or_skip
from tests.support.moving_pages import (
    BY_THE_MOMENT,
    CONTROLS,
    DRAWINGS,
    LEFT_BEHIND,
    PAGES,
    PLACES,
    SCRIPTED,
    SCROLLING,
    STILL,
    UNSTEADY,
    placed,
)

SHOWS_NOTHING = {"object"}


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def either(request):
    with renderer_or_skip(
        workers=1, browser=request.param, width=300, height=200, max_height=600, timeout=60, cache=0
    ) as made:
        yield made


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def scripted(request):
    """A renderer of pages with scripts. Chromium draws each twice, and refuses it if the two differ."""
    with renderer_or_skip(
        workers=2, browser=request.param, width=600, height=200, max_height=600, timeout=60, cache=0, javascript=True
    ) as made:
        yield made


def picture(renderer, page):
    rendered = renderer.render(page)
    assert rendered.failure is None, rendered.failure
    return rendered.png


def pictures(renderer, page):
    """The pictures of two drawings, which are not in step with what moves."""
    first = picture(renderer, page)
    time.sleep(0.011)
    return {first, picture(renderer, page)}


def pixel(png, x, y):
    pillow = pytest.importorskip("PIL.Image", reason="needs: pip install -e '.[frontend]'")
    return pillow.open(io.BytesIO(png)).convert("RGB").getpixel((x, y))


def alike_or_refused(renderer, page):
    rendered = [renderer.render(page) for _ in range(2)]
    return {one.png or one.failure["kind"] for one in rendered}


def test_movement_and_chance_of_a_page_itself_are_drawn_alike(either):
    found = {name: alike_or_refused(either, page) for name, page in PAGES.items()}
    assert [name for name, seen in found.items() if len(seen) > 1] == []
    late = {"font that may come too late"} if either.browser == "firefox" else set()
    assert {name for name, seen in found.items() if seen == {"moving"}} == late


def test_a_moving_drawing_is_refused_at_every_place_where_it_is_seen(either):
    """Every kind of moving drawing: tests/unit/rendering/test_moving.py."""
    found = {place: either.render(placed(place, DRAWINGS["animation"])).failure for place in PLACES}
    assert {place for place, failure in found.items() if failure is None} == SHOWS_NOTHING
    assert all(failure["kind"] == "moving" for failure in found.values() if failure)
    assert {name for name in SHOWS_NOTHING if len(pictures(either, placed(name, DRAWINGS["animation"]))) > 1} == set()


def test_drawings_that_stand_still_are_drawn_alike(either):
    seen = {name: pictures(either, placed("picture", drawing)) for name, drawing in STILL.items()}
    assert all(len(found) == 1 for found in seen.values())
    assert min(seen["plain"]) != min(seen["photograph"]), "nothing was seen"


def test_what_is_drawn_or_not_by_the_moment_is_refused_or_drawn_alike(either):
    if either.browser == "firefox":
        assert all(len(alike_or_refused(either, page)) == 1 for page in BY_THE_MOMENT.values())
        return
    found = {name: either.render(page).failure for name, page in BY_THE_MOMENT.items()}
    assert {name for name, failure in found.items() if failure is None or failure["kind"] != "moving"} == set()


def test_what_moves_in_controls_and_whatever_a_marquee_shows_stands_still(either):
    found = {name: pictures(either, page) for name, page in CONTROLS.items()}
    assert [name for name, seen in found.items() if len(seen) > 1] == []


def test_pages_are_drawn_the_same_before_and_after_pages_that_leave_something(either):
    if either.browser == "firefox":
        pytest.skip("Firefox keeps what it has decoded")
    before = [picture(either, shows) for _, shows in LEFT_BEHIND.values()]
    for leaves, _ in LEFT_BEHIND.values():
        either.render(leaves)
    assert [picture(either, shows) for _, shows in LEFT_BEHIND.values()] == before


def assert_scrolled_to_the_end(png):
    """The bar is where the page was scrolled to, and both boxes show their ends."""
    assert [pixel(png, 150, y) for y in (45, 300, 380)] == [(255,) * 3, (0,) * 3, (255,) * 3]


def test_a_page_that_scrolls_itself_smoothly_is_drawn_where_it_ends(either):
    assert_scrolled_to_the_end(picture(either, SCROLLING["play script"]))


def test_a_page_whose_scripts_scroll_it_smoothly_is_drawn_where_it_ends(scripted):
    png = picture(scripted, SCROLLING["scripts"])
    assert_scrolled_to_the_end(png)
    assert pixel(png, 150, 530) == (255,) * 3


def test_scripts_see_no_time_chance_focus_or_machine_that_is_not_fixed(scripted):
    if scripted.browser == "firefox":
        pytest.skip("Firefox has no virtual clock")
    assert pixel(picture(scripted, SCRIPTED), 590, 190) == (0, 255, 0), "a script saw the machine"
    found = {name: scripted.render(page).failure for name, page in UNSTEADY.items()}
    assert {name for name, failure in found.items() if failure is None or failure["kind"] != "moving"} == set()


def text_of(rendered):
    assert rendered.failure is None
    texts = rendered.layout["documents"][0]["layout"]["text"]
    return " ".join("".join(rendered.layout["strings"][number] for number in texts if number >= 0).split())


def test_scripts_run_with_a_clock_that_stands_and_alike_in_every_browser(scripted):
    if scripted.browser == "firefox":
        pytest.skip("Firefox has no virtual clock")
    page = """<body style="background:#0f0;height:550px"><script>
    addEventListener('resize', () => { document.body.style.background = 'red' });
    document.body.append(Date.now(), ' ', Math.random(), ' ', performance.now(), ' ');
    document.body.append(crypto.getRandomValues(new Uint8Array(4)));
    let frames = [Date.now()];
    const frame = () => { frames.push(Date.now()); requestAnimationFrame(frame) };
    requestAnimationFrame(frame);
    const uneven = () => frames.filter((time, n) => n && time - frames[n - 1] != 16).length;
    setTimeout(() => document.body.append(' late ', frames.length, ' ', uneven(), ' ', Date.now()), 1000);
    </script>"""
    one, other = scripted.render_all([page] * 2, layout=True)
    assert pixel(one.png, 200, 100) == (0, 255, 0), "a script saw the picture being taken"
    assert text_of(one) == text_of(other)
    assert one.png == other.png, "the texts are the same, the pixels are not"
    assert text_of(one).startswith("1700000000000 0.") and text_of(one).endswith(" late 63 0 1700000001000")
