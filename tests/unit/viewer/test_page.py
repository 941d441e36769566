"""The Content-Security-Policy of the page, in a file and served, and that nothing but data can enter the HTML."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from sweet_rl.viewer.html_file import json_text
from sweet_rl.viewer.page import shell, write_page
from sweet_rl.viewer.show import ViewSettings, open_collection
from tests.support.command_line import write_rows
from tests.support.dialogues import graded


class Elements(HTMLParser):
    """Start tags with their attributes in order, and the text inside script and style elements."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in self.raw and not dict(attributes).get("type"):
            self.raw[tag].append("")

    def handle_data(self, data):
        tag, attributes = self.tags[-1] if self.tags else ("", {})
        if tag in self.raw and not attributes.get("type") and not self.raw[tag][-1]:
            self.raw[tag][-1] = data


def policy_of(page: str) -> dict[str, list[str]]:
    (content,) = [a["content"] for _, a in Elements(page).tags if a.get("http-equiv") == "Content-Security-Policy"]
    directives = [directive.split() for directive in content.split(";")]
    return {name: sources for name, *sources in directives}


def sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize(
    "served, pictures, requests",
    [(False, ["data:", "blob:"], ["'none'"]), (True, ["data:", "blob:", "'self'"], ["'self'"])],
)
def test_the_policy_allows_one_script_one_style_and_pictures_of_the_page_itself_and_nothing_else(
    served, pictures, requests
):
    page = shell("title", "", served)
    (script,), (style,) = Elements(page).raw["script"], Elements(page).raw["style"]
    assert policy_of(page) == {
        "default-src": ["'none'"],
        "script-src": [sha256(script)],
        "style-src": [sha256(style)],
        "img-src": pictures,
        "connect-src": requests,
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["'none'"],
    }


@pytest.mark.parametrize("served", [False, True])
def test_the_policy_stands_before_everything_that_it_governs(served):
    tags = Elements(shell("title", "<p>data</p>", served)).tags
    place = next(i for i, (_, attributes) in enumerate(tags) if "http-equiv" in attributes)
    assert [tag for tag, _ in tags[:place]] == ["html", "head", "meta"]
    assert not any(name.startswith("on") or name == "style" for _, attributes in tags for name in attributes)
    addresses = [a[name] for _, a in tags for name in ("src", "href") if name in a]
    assert addresses == ["data:,"]


def test_the_title_is_text_whatever_it_spells():
    page = shell('</title><script>1</script>"&\x00{{script}}', "", False)
    assert "&lt;/title&gt;&lt;script&gt;1&lt;/script&gt;&quot;&amp;\ufffd{{script}}" in page
    assert len(Elements(page).raw["script"]) == 1


def test_data_reaches_the_html_only_in_blocks_that_no_browser_runs(tmp_path):
    page = write_page(open_collection(ViewSettings(write_rows(tmp_path / "a.jsonl", graded()))))
    blocks = [a for tag, a in Elements(page).tags if tag == "script" and a]
    assert {a["type"] for a in blocks} == {"application/octet-stream"} and len(blocks) >= 2
    assert all(
        re.fullmatch(r"[A-Za-z0-9+/=]+", text) for text in re.findall(r'octet-stream" id="[^"]+">([^<]*)<', page)
    )
    assert "problem_description" not in page and graded()[0].dialogue_history[1]["content"] not in page


def test_json_is_ascii_and_refuses_numbers_that_json_has_not():
    assert json_text({"a": "é\u2028</script>\ud83d"}).isascii()
    assert json.loads(json_text("\ud83d")) == "\ud83d"
    with pytest.raises(ValueError):
        json_text(float("nan"))
