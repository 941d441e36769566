"""The page in a real browser: hostile text stays text, nothing runs or loads, and the filter works without a script."""

import json
import shutil

import pytest

from sweet_rl.viewer.page import printable
from sweet_rl.viewer.show import ViewSettings, show
from tests.support.command_line import call, check_call, write_rows
from tests.support.dialogues import graded

SCRIPT = "../visualizers/visualize_dialogue_histories.py"
HOSTILE = {
    "script": "<script>window.ran = 'script'</script>",
    "closing script": "</script><script>window.ran = 'closing'</script>",
    "comment": "<!-- <script> --> <!--",
    "image handler": "<img src=x onerror=\"window.ran = 'img'\">",
    "svg handler": "<svg/onload=window.ran='svg'>",
    "attribute break": '" onmouseover="window.ran=\'attribute\'" x="',
    "style": "</style><style>* { display: none !important }</style>",
    "base and meta": '<base href="https://evil.example/"><meta http-equiv="refresh" content="0;url=https://evil.example/">',
    "iframe": "<iframe srcdoc=\"<script>parent.ran='iframe'</script>\"></iframe>",
    "jinja": "{% for x in ().__class__.__mro__ %}{{ x }}{% endfor %}",
    "bidi": "if admin\u202e\u2066 }tsil ni resu{ \u2069\u2066 then",
    "null and control": "a\x00b\x07c\x1b[31md\x7f\x9b",
    "entities": "&lt;script&gt; &#60;script&#62; &amp;lt;",
    "json escapes": '\\u003cscript\\u003e \\" \\\\ \\n',
}


@pytest.fixture(scope="module")
def driver():
    """A real browser."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install -e '.[frontend]'")
    program = next((p for p in ("chromium", "chromium-browser", "google-chrome") if shutil.which(p)), None)
    if program is None or shutil.which("chromedriver") is None:
        pytest.skip("no Chromium with its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which(program)
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))) as driver:
        driver.set_page_load_timeout(300)  # of a loaded machine
        yield driver


def complaints_of(driver) -> list[str]:
    """What the console has said since the last call."""
    return [entry["message"] for entry in driver.get_log("browser")]


def asked_by(driver) -> list[str]:
    """The addresses that were asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


@pytest.fixture
def open_page(driver, tmp_path):
    """Write the page of some rows, with `flaws` in its text, and open it."""

    def open_page(rows, name: str = "rows", flaws: str = ""):
        page = tmp_path / "page.html"
        show(ViewSettings(write_rows(tmp_path / f"{name}.jsonl", rows), str(page)))
        page.write_text(page.read_text().replace("<main>", f"<main>{flaws}"))
        driver.get("about:blank")
        complaints_of(driver), asked_by(driver)
        driver.get(page.as_uri())
        return page.as_uri()

    return open_page


def hostile_trajectory(name: str, text: str) -> dict:
    """A dialogue with the text as task, message of both sides, answer, id, test, failure and part."""
    task = {"problem_description": text, "ground_truth": text, "test_cases": {text: text}}
    history = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": text, "input": text, "output": text, "oracle": text},
        {"role": "user", "content": text},
        {"role": "assistant", "content": f"I WANT TO ANSWER: {text}", "input": text, "output": text},
    ]
    test = {"name": text, "passed": False, "reason": text, "message": text}
    return {
        "id": f"{name} {text[:200]}", "task": task, "dialogue_history": history, "answer": text, "reward": 0.5,
        "ending": "answered", "failure": {"kind": text, "message": text, "side": text}, "turn_credit": [0.5, -0.5],
        "parts": [{"text": text, "train": True}], "grade": {"tests": [test]},
    }  # fmt: skip


def test_hostile_texts_are_shown_as_text_and_nothing_runs_or_loads(driver, open_page):
    rows = [hostile_trajectory(*item) for item in HOSTILE.items()]
    address = open_page(rows, "<img src=x onerror=alert(1)>")
    shown = driver.find_elements("css selector", "article .message.human:nth-child(2) .text")
    texts = [driver.execute_script("return arguments[0].textContent", element) for element in shown]
    assert texts == [printable(text) for text in HOSTILE.values()]
    assert driver.execute_script("return window.ran") is None
    markup = "script, iframe, form, base, main img, link, object, svg, style + style"
    assert driver.find_elements("css selector", markup) == []
    links = [link.get_dom_attribute("href") for link in driver.find_elements("css selector", "a")]
    assert links and all(link.startswith("#d-") for link in links)
    assert complaints_of(driver) == [] and {url.partition("#")[0] for url in asked_by(driver)} == {address}


def test_the_policy_stops_what_a_flaw_in_the_template_would_let_in(driver, open_page):
    open_page(graded()[:1], flaws=(
        "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'><style>main { display: none }</style>"
        "<link rel=stylesheet href=http://127.0.0.1:9/s><iframe src='data:text/html,x'></iframe>"
    ))  # fmt: skip
    assert driver.execute_script("return window.ran") is None
    assert driver.find_elements("css selector", "main h1")[0].is_displayed()
    assert sum("Content Security Policy" in text for text in complaints_of(driver)) >= 5


def test_the_filter_leaves_the_dialogues_of_one_outcome(driver, open_page):
    open_page(graded())
    for key, expected in (
        ("success", [t for t in graded() if t.is_graded and t.reward == 1]),
        ("other", [t for t in graded() if t.is_graded and t.reward != 1]),
        ("ungraded", [t for t in graded() if not t.is_graded]),
        ("all", graded()),
    ):
        driver.execute_script("document.getElementById(arguments[0]).click()", f"filter-{key}")
        for selector in ("article", "nav li"):
            entries = driver.find_elements("css selector", selector)
            assert sum(entry.is_displayed() for entry in entries) == len(expected) > 0


def test_the_command_writes_a_page_and_keeps_what_it_would_not_replace(tmp_path):
    path, page = write_rows(tmp_path / "graded.jsonl", graded()), tmp_path / "graded.html"
    check_call(SCRIPT, input_path=path)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    page.write_text("something else")
    refused = call(SCRIPT, input_path=path)
    assert refused.code == 2 and "--overwrite" in refused.err and page.read_text() == "something else"
