from dataclasses import replace

import pytest

from sweet_rl.mini.page_oracle import effect, wrong_parts
from sweet_rl.mini.pages import PARTS, Page

REFERENCE = Page("Sunny Bakery", "white", "navy", "left", "We open at six", "green", 3, "gold", "none")
DRAFT = replace(REFERENCE, header="teal", image="right", footer="black")


def dialogue(*pages):
    return [{"role": "assistant", "content": page.html()} for page in pages]


def test_a_turn_is_worth_the_parts_that_it_repairs_and_spoils():
    turn = replace(DRAFT, header="navy", button="black").html()
    found = effect(REFERENCE.html(), dialogue(REFERENCE, DRAFT), turn)
    assert found.repaired == ("header",) and found.spoiled == ("button",)
    assert found.wrong == ("image", "button", "footer") and not found.ends


def test_handing_in_ends_and_a_turn_without_a_page_changes_nothing():
    assert effect(REFERENCE.html(), dialogue(DRAFT), f"I WANT TO ANSWER:\n{REFERENCE.html()}").ends
    found = effect(REFERENCE.html(), dialogue(DRAFT), "Which color do you like?")
    assert found.repaired == found.spoiled == () and found.wrong == ("header", "image", "footer")


def test_no_mini_page_is_wrong_in_every_part():
    assert wrong_parts(REFERENCE, None) == wrong_parts(REFERENCE, "<html></html>") == set(PARTS)
    assert wrong_parts(REFERENCE, replace(REFERENCE, site="Iron House").html()) == set(PARTS)
    with pytest.raises(ValueError, match="no mini page"):
        effect("<html></html>", [], "x")
