"""Hostile texts, in every place where text comes in: shown as text, nothing runs, nothing is asked for."""

import json
import re

import pytest

from sweet_rl.viewer.page import write_page
from sweet_rl.viewer.show import ViewSettings, open_collection
from tests.support.command_line import write_rows
from tests.support.hostile_texts import HOSTILE
from tests.support.viewer_server import address_of, serving

HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\ud800-\udfff]"
)


def trajectory(name: str, text: str) -> dict:
    """A dialogue with the text as task, message of both sides, answer, id, test, failure and unknown field."""
    task = {"problem_description": text, "ground_truth": text, "test_cases": {text: text}}
    history = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": text, "input": text, "output": text, "finish_reason": "length"},
        {"role": "user", "content": text},
        {"role": "assistant", "content": f"I WANT TO ANSWER: {text}", "input": text + text, "output": text},
    ]
    history[1]["oracle"] = text
    test = {"name": text, "passed": False, "reason": text, "message": text}
    return {
        "id": f"{name} {text[:200]}", "task": task, "dialogue_history": history, "answer": text, "reward": 0.5,
        "ending": "answered", "failure": {"kind": text, "message": text, "side": text}, text[:50]: text,
        "grade": {"failure": text, "level": text, "tests": [test]},
    }  # fmt: skip


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "<img src=x onerror=alert(1)>.jsonl", [trajectory(*item) for item in HOSTILE.items()])


def visible(text: str) -> str:
    """A text as the page shows it: characters that are not shown by their code points."""
    return HIDDEN.sub(lambda match: f"U+{ord(match[0]):04X}", text)


def collection_of(path):
    return open_collection(ViewSettings(str(path)))


# The page's own code shows a text in the same way wherever it comes from: all of them from a file, some also served.
SERVED = ("script", "image handler", "base and meta", "bidi", "null and control", "markdown")


def test_hostile_texts_of_a_file_are_shown_as_text_and_nothing_runs(rows, window, page):
    assert len(HOSTILE) >= 20
    nothing_runs(window, page(rows), HOSTILE)


def test_hostile_texts_of_a_server_are_shown_as_text_and_nothing_runs(tmp_path, window):
    texts = {name: HOSTILE[name] for name in SERVED}
    path = write_rows(tmp_path / "<img src=x onerror=alert(1)>.jsonl", [trajectory(*item) for item in texts.items()])
    with serving(collection_of(path)) as server:
        nothing_runs(window, address_of(server), texts)


def nothing_runs(window, address, texts):
    window.open(address)
    for number, (name, text) in enumerate(texts.items()):
        if number:
            window.keys("j")
        window.shown(number)
        window.run("document.querySelectorAll('details:not([open])').forEach(d => { d.open = true; })")
        window.wait("document.querySelectorAll('details > .fold-body').length > 0")
        shown = window.texts(".m-user .bubble")[1]
        if "```" not in text and not text.startswith(("<img", "<svg")):
            assert visible(text).strip() == shown.strip(), name
        assert window.run("window.ran") is None, name
        inside = ".panes script, .panes iframe, .panes form:not(#filters), .panes a, .panes base, style + style"
        assert window.run(f"document.querySelectorAll({inside!r}).length") == 0, name
    complaints, asked = window.logs()
    assert complaints == []
    mine = ("data:", "about:", address.split("#")[0])
    assert [url[:80] for url in asked if not url.startswith(mine)] == []
    assert window.run("document.styleSheets.length") == 1


def test_a_page_holds_no_text_of_the_data_but_as_packed_data(rows):
    text = write_page(collection_of(rows))
    assert "window.ran" not in text and "<img" not in text and "evil.example" not in text
    assert text.count("</script>") == text.count("<script")


INJECTED = """(() => {
    const attempts = {
      "inline script": () => { const s = document.createElement("script"); s.textContent = "window.ran = 1"; document.body.append(s); },
      "inner html": () => { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = 1'>"); },
      "eval": () => { setTimeout(() => { window.tried = true; (0, eval)("window.ran = 1"); }); },  // WebDriver may eval
      "handler": () => { const b = document.createElement("b"); b.setAttribute("onclick", "window.ran = 1"); document.body.append(b); b.click(); },
      "style": () => { const s = document.createElement("style"); s.textContent = "* { display: none }"; document.body.append(s); },
      "picture": () => { new Image().src = "http://127.0.0.1:9/picture"; },
      "request": () => { fetch("http://127.0.0.1:9/request").catch(() => {}); },
      "frame": () => { const f = document.createElement("iframe"); f.src = "data:text/html,x"; document.body.append(f); },
      "base": () => { const b = document.createElement("base"); b.href = "http://127.0.0.1:9/"; document.head.append(b); },
      "form": () => { const f = document.createElement("form"); f.action = "http://127.0.0.1:9/form"; document.body.append(f); f.submit(); },
    };
    window.blocked = [];
    document.addEventListener("securitypolicyviolation", (event) => { window.blocked.push(event.effectiveDirective); });
    for (const [name, attempt] of Object.entries(attempts)) try { attempt(); } catch (error) { }
    return true;
})()"""  # noqa: E501
BLOCKED = {
    "require-trusted-types-for", "style-src-elem", "img-src", "connect-src", "frame-src", "base-uri", "form-action",
}  # fmt: skip


@pytest.mark.parametrize("served", [False, True])
def test_the_policy_stops_what_a_flaw_in_the_page_would_let_in(window, tmp_path, page, served):
    """The page makes no such attempt itself; the policy is tried here as the second wall, with the first one gone."""
    path = write_rows(tmp_path / "plain.jsonl", [trajectory("plain", "plain")])
    with serving(collection_of(path)) as server:
        window.open(address_of(server) if served else page(path))
        window.run(INJECTED)
        window.wait(f"window.tried && {len(BLOCKED)} <= new Set(window.blocked).size")
        assert set(window.run("window.blocked")) >= BLOCKED
        assert window.run("window.ran") is None and window.one("#title").is_displayed()
        window.logs()


def test_a_line_of_a_million_characters_opens_and_shows_more_when_asked(window, tmp_path, page):
    task = {"problem_description": "x", "ground_truth": "x", "test_cases": {}}
    line = "<b>wide</b> " * 85_000
    history = [{"role": "user", "content": "x"}, {"role": "assistant", "content": line}]
    path = write_rows(
        tmp_path / "long.jsonl", [{"task": task, "dialogue_history": history, "answer": line, "reward": 0}]
    )
    address = page(path)
    window.open(address)
    shown = window.run("document.querySelector('.m-agent .bubble').textContent.length")
    assert 20_000 <= shown < 21_000
    window.one(".more").click()
    assert window.run("document.querySelector('.m-agent .bubble').textContent.length") > 100_000
    assert window.all(".bubble b") == []
    complaints, _ = window.logs()
    assert complaints == []


def test_texts_come_back_from_the_page_exactly_as_they_were(rows, window, page):
    window.open(page(rows))
    script = """const done = arguments[0];
        unpackAll().then((texts) => done(texts));
        async function unpackAll() {
          const all = [];
          for (const block of document.querySelectorAll('[id^=chunk-]')) {
            const bytes = Uint8Array.from(atob(block.textContent), (c) => c.charCodeAt(0));
            const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
            const units = (text) => [...Array(text.length).keys()].map((i) => text.charCodeAt(i));
            for (const view of await new Response(stream).json()) all.push(units(view.messages[0].text));
          }
          return all;
        }"""
    found = window.driver.execute_async_script(script)
    expected = [json.loads(json.dumps(text)) for text in HOSTILE.values()]
    assert ["".join(map(chr, units)) for units in found] == ["".join(map(chr, utf16(text))) for text in expected]


def utf16(text):
    data = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[i : i + 2], "little") for i in range(0, len(data), 2)]
