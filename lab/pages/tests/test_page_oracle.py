from dataclasses import replace

from lab.pages.page_oracle import effect, label_turn, usefulness, wrong_parts
from lab.pages.pages import PARTS, Page
from sweet_rl.runs.records import Task

REFERENCE = Page("Sunny Bakery", "white", "navy", "left", "We open at six", "green", 3, "gold", "none")
DRAFT = replace(REFERENCE, header="teal", image="right", footer="black")


def dialogue(*pages):
    return [{"role": "assistant", "content": page.html()} for page in pages]


def test_a_turn_is_worth_the_parts_that_it_repairs_and_spoils():
    turn = replace(DRAFT, header="navy", button="black").html()
    found = effect(REFERENCE, dialogue(REFERENCE, DRAFT), turn)
    assert found.repaired == ("header",) and found.spoiled == ("button",)
    assert found.wrong == ("image", "button", "footer") and not found.ends


def test_handing_in_ends_and_a_turn_without_a_page_changes_nothing():
    assert effect(REFERENCE, dialogue(DRAFT), f"I WANT TO ANSWER:\n{REFERENCE.html()}").ends
    found = effect(REFERENCE, dialogue(DRAFT), "Which color do you like?")
    assert found.repaired == found.spoiled == () and found.wrong == ("header", "image", "footer")


def test_no_mini_page_is_wrong_in_every_part():
    assert wrong_parts(REFERENCE, None) == wrong_parts(REFERENCE, "<html></html>") == set(PARTS)
    assert wrong_parts(REFERENCE, replace(REFERENCE, site="Iron House").html()) == set(PARTS)


def test_a_turn_is_named_by_what_it_does_to_the_page():
    worse = replace(DRAFT, button="black")
    answer = "I WANT TO ANSWER:\n"
    judged = [
        (replace(DRAFT, header="navy").html(), "repairs"),
        (worse.html(), "spoils"),
        (replace(worse, header="navy").html(), "idle"),
        (DRAFT.html(), "idle"),
        (answer + replace(DRAFT, header="navy").html(), "early"),
        (answer + REFERENCE.html(), "complete"),
    ]
    assert [usefulness(REFERENCE, dialogue(DRAFT), turn) for turn, _ in judged] == [word for _, word in judged]
    assert usefulness(REFERENCE, [], worse.html()) == "repairs"  # the first page: four parts of eight are right


def test_a_turn_is_labelled_if_its_task_is_a_mini_page_task():
    turn = replace(DRAFT, header="navy").html()
    assert label_turn(Task("d", REFERENCE.html()), dialogue(DRAFT), turn) == "repairs"
    assert label_turn(Task("d", "<html></html>"), dialogue(DRAFT), turn) is None
