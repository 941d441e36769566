"""Tailwind's stylesheet is cut only where no element of the page can be touched."""

import hashlib

import pytest

from sweet_rl.rendering.tailwind import stylesheet, stylesheet_for


def test_the_packaged_file_is_the_published_one():
    published = "b6ad97402eddb903e7a5d7a73ee47a679204efbdda4521a391cbad9df509b932"
    assert hashlib.sha256(stylesheet()).hexdigest() == published


def test_a_rule_stays_for_a_class_of_the_page_and_goes_without():
    cut = stylesheet_for('<p class="bg-red-500 md:w-1/2 group-hover:underline 2xl:p-4">').decode()
    assert ".bg-red-500{" in cut and r".md\:w-1\/2{" in cut and r".\32xl\:p-4{" in cut
    assert ".bg-red-600{" not in cut and ".w-1" not in cut.replace(r".md\:w-1", "")
    assert len(cut) < 10_000


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
        "<iframe srcdoc='<iframe srcdoc=&quot;<p class=&amp;quot;bg-red-500&amp;quot;>&quot;>'>",
        "<svg class=x><set attributeName=class to=bg-red-500 /><animate values='a;bg-red-500;b'/></svg>",
        "<p class='x'bg-red-500>",
    ],
)
def test_however_a_class_is_written_its_rules_are_there(page):
    assert b".bg-red-500{" in stylesheet_for(page)


@pytest.mark.parametrize(
    "page",
    [
        "<script>document.body.className = 'bg-' + 'red-500'</script>",
        "<body onload=\"this.className = ['bg', 'red', 500].join('-')\">",
        "<iframe src='java&#115;cript:parent.document.body.className = `bg-${1}`'>",
        "<p class='x'onclick='f()'>",
        '<link integrity="sha384-x" href="tailwind.min.css">',
    ],
)
def test_a_page_that_may_compose_classes_or_checks_the_file_gets_all_of_it(page):
    assert stylesheet_for(page) == stylesheet()
