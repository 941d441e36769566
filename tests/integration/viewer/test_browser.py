"""The page in a real browser: lists, filters, keys, links, differences, hover, comparison, themes, no request."""

from dataclasses import replace

import pytest

from sweet_rl.evaluation.statistics import bootstrap_interval, interval_text
from tests.support.command_line import write_rows
from tests.support.dialogues import graded

SOLVED = [i for i, t in enumerate(graded()) if t.reward == 1.0]


@pytest.fixture(scope="module")
def dialogues(tmp_path_factory, page):
    return page(write_rows(tmp_path_factory.mktemp("dialogues") / "graded.jsonl", graded()))


pytestmark = pytest.mark.usefixtures("quiet")


def test_a_page_shows_its_dialogues_with_reward_ending_and_turns(window, dialogues):
    window.open(dialogues)
    assert window.texts("#count") == ["12 dialogues"]
    assert len(window.all(".row")) > 5
    first = window.one(".row").text
    assert "1" in first and "turns" in first
    assert window.texts(".figure")[0].endswith("%")
    assert window.all(".message.m-user") and window.all(".message.m-agent")


def test_the_figures_are_those_of_compare_runs(window, tmp_path, page):
    rows = [replace(graded()[0], task=replace(graded()[0].task, id=f"t{i}"), id=f"d{i}") for i in range(16)]
    rows = [replace(row, reward=float(i < 5)) for i, row in enumerate(rows)]
    score = bootstrap_interval({row.task.id: [row.reward] for row in rows})
    window.open(page(write_rows(tmp_path / "graded.jsonl", rows)))
    assert window.texts(".tile h2")[0] == "Success"
    # 31.25 lies in the middle of 31.2 and 31.3
    assert window.texts(".figure")[0] == f"{100 * score.mean:.1f} %" == "31.2 %"
    assert window.texts(".tile .quiet")[0] == f"95 %: {interval_text(score.low, score.high)}"


def test_a_domain_of_partial_rewards_has_their_mean_in_place_of_success(window, tmp_path, page):
    task = replace(graded()[0].task, test_cases={})
    grade = {"failure": None, "grader": "mine.reward (12345678)"}
    rows = [replace(graded()[0], task=task, reward=0.25 * i, grade=grade, id=f"d{i}") for i in range(4)]
    path = write_rows(tmp_path / "graded.jsonl", rows)
    window.open(page(path))
    assert window.texts(".tile h2")[0] == "Mean reward" and window.texts(".figure")[0] == "37.5 %"
    assert window.texts(".ends")[0] == "0mean 0.381"
    window.open(page(path, compare_path=str(path), names=["one", "other"]))
    assert window.texts(".figure") == ["37.5 %", "37.5 %", "0.0 points"]


def test_fenced_code_is_one_block_to_its_closing_fence(window, tmp_path, page):
    text = "Is it this?\n```python\ndef f(x):\n    y = 1\n\n    return y\n```\nIt is.\r\n"
    text += "````md\r\n```\r\na\r\n```\r\n````\r\nOr:\n```\n```\n~~~\nb = 1\n\nc = 2"
    rows = [replace(graded()[0], dialogue_history=[{"role": "assistant", "content": text}])]
    window.open(page(write_rows(tmp_path / "graded.jsonl", rows)))
    blocks = ["def f(x):\n    y = 1\n\n    return y", "```\r\na\r\n```", "", "b = 1\n\nc = 2"]
    assert window.texts(".chat .m-agent pre.code") == blocks
    assert [words.strip() for words in window.texts(".chat .m-agent p.prose")] == ["Is it this?", "It is.", "Or:"]


def test_filters_leave_the_solved_the_unsolved_one_ending_a_range_and_a_search(window, dialogues):
    window.open(dialogues)
    window.click('[data-show="solved"]')
    assert window.texts("#count")[0].startswith(f"{len(SOLVED)} of 12")
    window.click('[data-show="unsolved"]')
    unsolved = sum(t.reward is not None and t.reward < 1 for t in graded())
    assert window.texts("#count")[0].startswith(f"{unsolved} of 12")
    window.click('[data-show=""]')
    window.set("f-ending", "failed")
    assert window.texts("#count") == ["1 of 12 dialogues"]
    window.set("f-ending", "")
    window.one("#f-min").send_keys("0.1")
    window.one("#f-max").send_keys("0.9")
    expected = sum(t.reward is not None and 0.1 <= t.reward <= 0.9 for t in graded())
    assert window.texts("#count")[0].startswith(f"{expected} of 12")
    window.set("f-min", "")
    window.set("f-max", "")
    word = graded()[4].task.problem_description.split("def ")[1].split("(")[0]
    window.keys("\ue00c")  # Escape: out of the field
    window.keys("/" + word)
    window.wait(f"document.documentElement.dataset.searched === '{word}'")
    expected = sum(word in t.task.problem_description for t in graded())
    assert window.texts("#count")[0].startswith(f"{expected} of 12")


def test_a_search_that_begins_during_another_finds_the_right_entries(window, tmp_path, page, monkeypatch):
    monkeypatch.setattr("sweet_rl.viewer.page.CHUNK", 1)  # an entry in each block
    window.open(page(write_rows(tmp_path / "graded.jsonl", graded())))
    window.driver.execute_script("""const json = Response.prototype.json;
        window.waiting = [];
        window.open_all = () => { Response.prototype.json = json; waiting.forEach((go) => go()); };
        const opened = () => new Promise((go) => waiting.push(go));
        Response.prototype.json = function () { return opened().then(() => json.call(this)); };""")
    word = graded()[4].task.problem_description.split("def ")[1].split("(")[0]
    for number, query in enumerate((word[:3], word), start=1):
        window.set("f-q", query)
        window.wait(f"waiting.length === {number}")
    window.driver.execute_script("open_all()")
    window.wait(f"document.documentElement.dataset.searched === '{word}'")
    expected = [f"row-{i}" for i, t in enumerate(graded()) if word in t.task.problem_description]
    assert window.run("[...document.querySelectorAll('.row')].map((row) => row.id)") == expected


def test_j_and_k_walk_the_list_and_n_and_p_the_turns(window, dialogues):
    window.open(dialogues)
    window.keys("j")
    window.shown(1)
    window.keys("j")
    window.shown(2)
    window.keys("k")
    window.shown(1)
    assert window.run("document.querySelector('.row[aria-selected=true]').id") == "row-1"
    window.keys("n")
    window.keys("n")
    assert window.run("document.activeElement.id") == "turn-1"
    window.keys("p")
    assert window.run("document.activeElement.id") == "turn-0"


def test_the_order_can_be_turned_round(window, dialogues):
    window.open(dialogues + "#sort=reward&down=1")
    rewards = [float(text) for text in window.texts(".row .row-reward")]
    assert rewards == sorted(rewards, reverse=True)


def test_an_address_leads_to_its_dialogue_turn_and_filters(window, dialogues):
    chosen = graded()[SOLVED[1]]
    window.open(f"{dialogues}#d={chosen.id}&turn=2&show=solved")
    window.wait("document.activeElement.id === 'turn-1'")
    assert chosen.id in window.texts(".fact.id")[0]
    assert window.run("document.querySelector('[data-show=solved]').getAttribute('aria-pressed')") == "true"
    window.keys("k")
    window.wait(f"!location.hash.includes('d={chosen.id}')")
    window.driver.back()
    window.wait(f"document.querySelector('.fact.id').textContent.includes('{chosen.id}')")


def test_the_row_of_an_address_is_in_view(window, dialogues):
    chosen = graded()[9]  # the summary makes the list shorter once it is drawn
    window.open(f"{dialogues}#d={chosen.id}")
    window.wait("document.querySelectorAll('.tile').length > 3")
    # within a fraction of a pixel
    bottom = "document.querySelector('{}').getBoundingClientRect().bottom"
    assert window.run(f"{bottom.format('.row[aria-selected=true]')} - {bottom.format('#rows')}") < 1


def test_the_answer_stands_beside_the_reference_with_what_differs_marked(window, dialogues):
    number, chosen = next((i, t) for i, t in enumerate(graded()) if t.ending == "answered" and t.reward < 1)
    window.open(f"{dialogues}#d={chosen.id}")
    missing = [line for line in chosen.task.ground_truth.splitlines() if line not in chosen.answer.splitlines()]
    added = ["".join(text.split("+", 1)[1:]) for text in window.texts(".diff td.new")]
    assert added == missing
    assert window.texts(".diff td:nth-child(2) .line-text") != window.texts(".diff td:nth-child(4) .line-text")
    window.keys("d")
    assert window.run("document.activeElement.id") == "answer"


def test_every_unit_test_says_what_was_expected_what_came_and_why(window, dialogues):
    chosen = next(t for t in graded() if t.ending == "answered" and t.reward < 1)
    window.open(f"{dialogues}#d={chosen.id}")
    rows = window.texts(".tests-table tbody tr")
    assert len(rows) == 10
    for row, (call, test) in zip(
        rows, zip(chosen.task.test_cases.values(), chosen.grade["tests"], strict=True), strict=True
    ):
        assert call in row
        assert ("✓" in row) == test["passed"]
        if not test["passed"]:
            expected, got = test["message"].removeprefix("expected ").split(", got ")
            assert expected in row and got in row
    silent = next(t for t in graded() if t.ending == "turn_limit")
    window.open(f"{dialogues}#d={silent.id}")
    assert "no answer" in window.texts("#tests")[0]


def test_the_exact_prompt_comes_on_demand(window, dialogues):
    window.open(dialogues)
    assert not window.all(".exact")
    window.all(".fold-prompt > summary")[1].click()
    window.wait("document.querySelector('.exact')")
    assert window.texts(".exact") == [graded()[0].dialogue_history[3]["input"]]


def test_a_failed_dialogue_says_what_failed(window, dialogues):
    window.open(f"{dialogues}#d={graded()[-1].id}")
    assert "the server gave out" in window.texts(".failure")[0]
    assert "failed, not graded" in window.texts(".facts")[0]


def test_only_a_dialogue_without_an_answer_says_that_its_turns_were_over(window, tmp_path, page):
    chosen = next(t for t in graded() if t.ending == "answered")
    ended = replace(chosen, ending="turn_limit")
    ours = replace(ended, id="ours-0", answer=None)
    released = replace(ended, id="released-0", protocol="released")
    released.dialogue_history = [{"role": "system", "content": "Ask. " * 1000}, *chosen.dialogue_history]
    address = page(write_rows(tmp_path / "graded.jsonl", [ours.to_dict(), released.to_dict()]))
    for one, notes, systems in ((ours, 1, 0), (released, 0, 1)):
        window.open(f"{address}#d={one.id}")
        assert len(window.all(".end-note")) == notes
        assert len(window.all(".m-system .fold-opening")) == systems
    assert window.all(".diff"), "the graded answer stands beside the reference"


def test_the_oracle_says_which_questions_were_useful(window, dialogues):
    window.open(dialogues)
    words = window.texts(".m-agent > header .oracle")
    assert words[0] == "✗ useless" and words[-1] == "✓ complete" and set(words[1:-1]) == {"✓ useful"}


@pytest.mark.parametrize("theme, width", [("light", 390), ("dark", 1400)])
def test_both_themes_and_a_phone_show_text_that_can_be_read_and_fits(window, dialogues, theme, width):
    window.theme(theme)
    window.size(width, 844)
    try:
        window.open(f"{dialogues}#d={graded()[1].id}")
        assert window.run("document.documentElement.scrollWidth") <= width
        assert window.run("document.getElementById('reading').scrollWidth") <= width
        for selector in (".bubble", ".row-facts", ".quiet", ".fact", ".c-keyword", ".oracle", ".reason, .bad"):
            assert contrast(window, selector) >= 4.5, selector
        if width == 390:
            assert not window.one("#rows").is_displayed()
            window.click(".back")
            assert window.one("#rows").is_displayed() and not window.one("#reading").is_displayed()
    finally:
        window.theme("light")
        window.size(1400, 900)


def contrast(window, selector):
    """The WCAG contrast of an element's text with the first opaque background behind it."""
    script = """(() => {
      const read = (colour) => {
        const sheet = new OffscreenCanvas(1, 1).getContext('2d');
        sheet.fillStyle = colour; sheet.fillRect(0, 0, 1, 1);
        return [...sheet.getImageData(0, 0, 1, 1).data];
      };
      const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => sum + weight * linear(c[i] / 255), 0);
      const node = document.querySelector(SELECTOR);
      let behind = node;
      while (read(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
      const a = light(read(getComputedStyle(node).color)), b = light(read(getComputedStyle(behind).backgroundColor));
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    })()"""
    return window.run(script.replace("SELECTOR", repr(selector)))


def test_the_keys_are_told(window, dialogues):
    window.open(dialogues)
    window.keys("?")
    assert window.run("document.getElementById('help').open")
    assert "next, previous entry" in window.texts("#help")[0]
    window.keys("?")
    assert not window.run("document.getElementById('help').open")


def test_two_runs_stand_beside_each_other_where_they_part(window, tmp_path, page):
    one, other = write_rows(tmp_path / "a.jsonl", graded()), write_rows(tmp_path / "b.jsonl", graded(shift=1))
    window.open(page(one, compare_path=other, names=["before", "after"]))
    assert window.texts("#count") == ["12 pairs of dialogues"]
    number = next(i for i, (a, b) in enumerate(zip(graded(), graded(shift=1), strict=True)) if a.answer != b.answer)
    window.click(f"#row-{number}")
    window.shown(number)
    a, b = graded()[number], graded(shift=1)[number]
    shared = next(i for i, (x, y) in enumerate(zip(a.dialogue_history, b.dialogue_history, strict=False)) if x != y)
    assert window.texts("#parting") == [f"They part at message {shared + 1}"]
    assert window.texts(".shared > summary") == [f"{shared} messages the same"]
    assert window.all(".s-left mark") and window.all(".s-right mark")
    window.click('[data-show="first"]')
    better = sum(
        (x.reward or 0) > (y.reward or 0)
        for x, y in zip(graded(), graded(shift=1), strict=True)
        if x.reward is not None
    )
    assert window.texts("#count")[0].startswith(f"{better} of 12")


@pytest.fixture(scope="module")
def credited(tmp_path_factory, page):
    """The page of dialogues with credit: the k-th token of turn n has the log-ratio 0.5 k - n."""
    rows = []
    for trajectory in graded():
        turns = [m["content"] for m in trajectory.dialogue_history if m["role"] == "assistant"]
        told = []
        for turn, text in enumerate(turns):
            tokens = [word + " " for word in text.split(" ")]
            critic = [0.5 * k - turn - 1.0 for k in range(len(tokens))]
            advantage = sum(critic) / len(critic) + 1.0
            row = {"turn": turn, "advantage": advantage, "tokens": tokens, "critic": critic}
            told.append(row | {"reference": [-1.0] * len(tokens)})
        rows.append({"id": trajectory.id, "turns": told})
    folder = tmp_path_factory.mktemp("credited")
    credit = write_rows(folder / "credit.jsonl", rows)
    return page(write_rows(folder / "graded.jsonl", graded()), credit_path=str(credit))


def test_a_turn_has_its_advantage_as_number_and_colour_and_each_token_its_log_ratio_on_hover(window, credited):
    window.open(credited)
    numbers = window.texts(".m-agent .advantage b")
    assert numbers[0] == "+1.25"  # six words: (0 + 0.5 + ... + 2.5) / 6
    assert window.texts(".strip-value") == numbers
    script = "[...document.querySelectorAll('.m-agent')].map(m => getComputedStyle(m, '::before').backgroundColor)"
    colours = window.run(script)
    assert len(set(colours)) > 1
    tokens = window.all(".m-agent .token")
    window.hover(tokens[3])
    window.wait("!document.getElementById('tip').hidden")
    assert "+1.500" in window.one("#tip").text and "log π critic +0.500" in window.one("#tip").text
    window.hover(window.one("#title"))
    window.wait("document.getElementById('tip').hidden")
    window.keys("n")
    window.run("document.querySelectorAll('.tokens')[1].focus()")
    window.keys("\ue014\ue014")  # the arrow right, twice: the second token
    assert "−0.500" in window.one("#tip").text
    assert "−0.500" in window.run("document.getElementById('said').textContent")
    window.keys("t")
    assert not window.all(".token") and window.texts(".m-agent .advantage b") == numbers
    window.run("document.querySelectorAll('.strip-turn-button')[2].click()")
    assert window.run("document.activeElement.id") == "turn-2"


def test_candidates_stand_in_their_order_with_what_was_chosen_and_rejected(window, tmp_path, page):
    from sweet_rl.method.turn_pairs import turn_pairs
    from tests.unit.viewer.test_entries import SCORES, candidate_records

    records = candidate_records()
    pairs = [pair for record in records for pair in turn_pairs(record, 3, seed=1)]
    ranked = write_rows(tmp_path / "ranked.jsonl", records)
    window.open(page(ranked, pair_path=write_rows(tmp_path / "pairs.jsonl", pairs)))
    scores = [text.replace("−", "-") for text in window.texts(".candidate-head .number")[: len(SCORES)]]
    assert [float(score) for score in scores] == sorted(SCORES, reverse=True)
    marks = " ".join(window.texts("#turn-0 .drawn"))
    assert "▲ chosen" in marks and "▼ rejected" in marks
    assert window.texts("#turn-0 .half") == ["Top half", "Middle: never drawn", "Bottom half"]
    window.keys("x")
    assert not window.all(".fold-candidates[open]")
