"""The same page gives the same pixels, or is refused: no page gambles for its reward."""

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
    SHADOWS,
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


def pictures(renderer, page, count=3):
    found = set()
    for number in range(count):
        rendered = renderer.render(page)
        assert rendered.failure is None, rendered.failure
        found.add(rendered.png)
        time.sleep(0.011 * number)  # so that the drawings are not in step with what moves
    return found


def alike_or_refused(renderer, page, count=3):
    rendered = [renderer.render(page) for _ in range(count)]
    return {one.png or one.failure["kind"] for one in rendered}


def test_movement_and_chance_of_a_page_itself_are_drawn_alike(either):
    found = {name: alike_or_refused(either, page, 2) for name, page in PAGES.items()}
    assert [name for name, seen in found.items() if len(seen) > 1] == []
    late = {"font that may come too late"} if either.browser == "firefox" else set()
    assert {name for name, seen in found.items() if seen == {"moving"}} == late


def test_a_moving_drawing_is_refused_at_every_place_where_it_is_seen(either):
    found = {place: either.render(placed(place, DRAWINGS["animation"])).failure for place in PLACES}
    assert {place for place, failure in found.items() if failure is None} == SHOWS_NOTHING
    assert all(failure["kind"] == "moving" for failure in found.values() if failure)
    assert {name for name in SHOWS_NOTHING if len(pictures(either, placed(name, DRAWINGS["animation"]))) > 1} == set()


def test_drawings_that_stand_still_are_drawn_alike(either):
    seen = {name: pictures(either, placed("picture", drawing)) for name, drawing in STILL.items()}
    assert all(len(found) == 1 for found in seen.values())
    assert min(seen["plain"]) != min(seen["photograph"]), "nothing was seen"


def test_every_kind_of_moving_drawing_is_refused_or_not_shown_and_the_next_page_is_drawn(either):
    plain = pictures(either, "<p>plain", 1)
    found = {name: either.render(placed("picture", drawing)).failure for name, drawing in DRAWINGS.items()}
    assert {name for name, failure in found.items() if failure is None} <= {"cut"}  # no browser shows it
    assert {either.render(page).failure["kind"] for page in SHADOWS.values()} == {"moving"}
    assert pictures(either, "<p>plain", 1) == plain


def test_what_is_drawn_or_not_by_the_moment_is_refused_or_drawn_alike(either):
    if either.browser == "firefox":
        assert all(len(alike_or_refused(either, page)) == 1 for page in BY_THE_MOMENT.values())
        return
    found = {name: either.render(page).failure for name, page in BY_THE_MOMENT.items()}
    assert {name for name, failure in found.items() if failure is None or failure["kind"] != "moving"} == set()


@pytest.mark.parametrize("name", CONTROLS)
def test_what_moves_in_controls_and_whatever_a_marquee_shows_stands_still(either, name):
    assert len(pictures(either, CONTROLS[name])) == 1


def test_pages_are_drawn_the_same_before_and_after_pages_that_leave_something():
    with renderer_or_skip(
        workers=1, browser="chromium", width=300, height=200, max_height=600, timeout=60, cache=0
    ) as fresh:
        before = [pictures(fresh, shows, 1) for _, shows in LEFT_BEHIND.values()]
        for leaves, _ in LEFT_BEHIND.values():
            fresh.render(leaves)
        assert [pictures(fresh, shows, 1) for _, shows in LEFT_BEHIND.values()] == before


def test_scripts_see_no_time_chance_focus_or_machine_that_is_not_fixed():
    with renderer_or_skip(
        workers=1, browser="chromium", width=900, height=200, timeout=60, cache=0, javascript=True
    ) as scripted:
        assert [name for name, page in SCRIPTED.items() if len(pictures(scripted, page, 2)) > 1] == []
        machine = "<script>document.write(navigator.hardwareConcurrency,navigator.connection,new Date(0))</script>"
        constants = (
            "<script>document.write(4,undefined,'Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)')"
        )
        assert pictures(scripted, machine, 1) == pictures(scripted, f"{constants}</script>", 1)
        found = {name: scripted.render(page).failure for name, page in UNSTEADY.items()}
        assert {name for name, failure in found.items() if failure is None or failure["kind"] != "moving"} == set()
