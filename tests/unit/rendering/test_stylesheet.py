"""Tailwind's stylesheet is cut only where no element of the page can be touched."""

import hashlib

import pytest

from sweet_rl.rendering import stylesheet as sheets
from sweet_rl.rendering.stylesheet import possible_classes, stylesheet, stylesheet_for


def test_the_packaged_file_is_the_published_one():
    published = "b6ad97402eddb903e7a5d7a73ee47a679204efbdda4521a391cbad9df509b932"
    assert hashlib.sha256(stylesheet()).hexdigest() == published


def test_all_rules_written_again_are_the_file():
    rules, _, _ = sheets._index()
    assert sheets._to_css(rules).encode() == stylesheet()


def test_a_rule_stays_for_a_class_of_the_page_and_goes_without():
    page = '<p class="bg-red-500 md:w-1/2">'
    cut = stylesheet_for(page).decode()
    assert ".bg-red-500{" in cut and r".md\:w-1\/2{" in cut
    assert ".bg-red-600{" not in cut and ".w-1" not in cut.replace(r".md\:w-1", "")
    assert len(cut) < 10_000


def test_rules_keep_their_order_and_their_nested_conditions():
    page = '<p class="xl:container container p-4 sm:p-2">'
    cut = stylesheet_for(page).decode()
    assert r"@media (min-width:1280px){.xl\:container{width:100%}@media (min-width:640px){.xl\:container" in cut
    places = [cut.index(text) for text in (".container{", ".p-4{", r".sm\:p-2{")]
    assert places == sorted(places)
    assert cut.count("{") == cut.count("}")


def test_base_rules_and_keyframes_are_always_there():
    cut = stylesheet_for("<p>").decode()
    assert "@keyframes spin" in cut and "box-sizing:border-box" in cut and "blockquote,dd,dl" in cut


@pytest.mark.parametrize(
    "page",
    [
        "<p class=bg-red-500>",
        "<p class='a bg-red-500'>",
        '<p class="\tbg-red-500\nx">',
        "<p CLASS=BG-RED-500>",
        "<p class=bg-red-500 />",
        "<p class='&#98;g-red-500'>",
        "<p class='bg&#45;red&#x2d;500'>",
        "<iframe srcdoc='<p class=&quot;bg-red-500&quot;>'>",
        "<iframe srcdoc='<iframe srcdoc=&quot;<p class=&amp;quot;bg-red-500&amp;quot;>&quot;>'>",
        "<svg class=x><set attributeName=class to=bg-red-500 /><animate values='a;bg-red-500;b'/></svg>",
        "<p class='x'bg-red-500>",
    ],
)
def test_however_a_class_is_written_it_is_found(page):
    assert "bg-red-500" in possible_classes(page)
    assert ".bg-red-500{" in stylesheet_for(page).decode()


def test_a_page_that_hides_its_classes_or_checks_the_file_gets_all_of_it():
    text = "bg-red-500"
    for _ in range(12):
        text = text.replace("&", "&amp;").replace("-", "&#45;", 1)
    assert stylesheet_for(f"<p class='{text}'>") == stylesheet()
    assert stylesheet_for('<link integrity="sha384-x" href="tailwind.min.css">') == stylesheet()


def test_classes_inside_not_are_not_asked_for():
    assert sheets._needed(r".space-x-4>:not([hidden])~:not(.gone)") == {"space-x-4"}
    assert sheets._needed(r".group:hover .group-hover\:w-1\/2") == {"group", "group-hover:w-1/2"}
    assert sheets._needed(r".\32xl\:p-4") == {"2xl:p-4"}
