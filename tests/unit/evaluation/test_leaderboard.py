"""Run cards that compare stand in one table; the others say what differs; names in them are text."""

import json
from dataclasses import replace

import pytest

from sweet_rl.evaluation.escaped import in_markdown
from sweet_rl.evaluation.leaderboard import as_markdown, grouped
from sweet_rl.evaluation.run_card import FORM, ModelRow, RunCard, read_card
from sweet_rl.runs.errors import UserError
from tests.support.command_line import call


def row(name: str, mean: float = 0.5, **more) -> ModelRow:
    figure = {"mean": mean, "low": mean / 2, "high": (1 + mean) / 2, "tasks": 100}
    facts = {"dialogues": 100, "failed": 0, "excluded": 0, "turns": 4.0, "leaks_per_dialogue": 0.25}
    return {"name": name, "request": {}, "score": figure, "failed_as_0": figure, **facts, **more}  # type: ignore[typeddict-item]


def card(*models: ModelRow, **more) -> RunCard:
    base = RunCard(
        form=FORM, date="2026-01-02T03:04:05Z", version="1.2.3", task_type="code", measure="success",
        protocol={"name": "released", "files": {"a.txt": "a" * 64}},
        human={"name": "llama", "hash": "0123456789abcdef", "model": "org/llama"},
        sampling={"temperature": 1.0, "max_turns": 10}, grader={"kind": "code", "paper_grader": True},
        tasks={"file": "test.jsonl", "sha256": "b" * 64, "number": 100, "content": "c" * 16}, models=list(models),
    )  # fmt: skip
    return replace(base, **more)


def four() -> dict[str, RunCard]:
    """Two cards that compare, one of another human, one of another protocol and sampling."""
    return {
        "one.json": card(row("weak", 0.2), row("strong", 0.6)),
        "two.json": card(row("middle", 0.4), date="2026-02-02T00:00:00Z", version="1.3.0"),
        "three.json": card(row("lucky", 0.9), human={"name": "gpt", "hash": "f" * 16, "model": "gpt"}),
        "four.json": card(
            row("own", 0.7),
            protocol={"name": "sweet_rl", "files": {"agent_prompt": "d" * 64}},
            sampling={"temperature": 0.7, "max_turns": 10},
        ),
    }


def test_cards_that_compare_are_one_table_and_the_best_model_is_first():
    first, *others = grouped(four())
    assert [(entry.row["name"], entry.source) for entry in first.entries] == [
        ("strong", "one.json"), ("middle", "two.json"), ("weak", "one.json"),
    ]  # fmt: skip
    assert first.differences == [] and [len(group.entries) for group in others] == [1, 1]


def test_each_other_table_names_what_differs():
    _, human, protocol = grouped(four())
    assert human.differences == [
        "human name: gpt instead of llama",
        f"human hash: {'f' * 16} instead of 0123456789abcdef",
    ]
    assert protocol.differences == [
        "protocol name: sweet_rl instead of released",
        f"protocol files agent_prompt: {'d' * 12} instead of (none)",
        "sampling temperature: 0.7 instead of 1.0",
        f"protocol files a.txt: (none) instead of {'a' * 12}",
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"grader": {"kind": "code", "paper_grader": False}},
        {"tasks": {"file": "test.jsonl", "sha256": "b" * 64, "number": 50, "content": "e" * 16}},
        {"protocol": {"name": "released", "files": {"a.txt": "f" * 64}}},
        {"sampling": {"temperature": 1.0, "max_turns": 5}},
    ],
)
def test_one_difference_separates(other):
    groups = grouped({"one.json": card(row("a")), "two.json": card(row("b"), **other)})
    assert len(groups) == 2 and groups[1].differences


@pytest.mark.parametrize(
    "other",
    [
        {"version": "9", "date": "2030-01-01T00:00:00Z"},
        {"human": {"name": "another name", "hash": "0123456789abcdef", "model": "x"}},
        {"tasks": {"file": "copy.jsonl", "sha256": "0" * 64, "number": 100, "content": "c" * 16}},
    ],
)
def test_names_dates_and_copies_of_the_tasks_do_not_separate(other):
    assert len(grouped({"one.json": card(row("a")), "two.json": card(row("b"), **other)})) == 1


def test_the_halves_of_the_benchmark_are_tables_of_their_own():
    pages = card(row("a"), task_type="html", measure="similarity", grader={"kind": "page", "encoder": "CLIP"})
    groups = grouped({"one.json": card(row("a")), "two.json": pages})
    assert [(group.card.task_type, group.differences) for group in groups] == [("code", []), ("html", [])]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("[click](http://x)", r"\[click\](http\://x)"),
        ("two\nlines\u202e", "two lines"),
        ("`code` *b* _i_", r"\`code\` \*b\* \_i\_"),
        ("a&lt;b", "a&amp;lt;b"),
    ],
)
def test_a_name_is_text_in_markdown(text, shown):
    assert in_markdown(text) == shown


def test_the_markdown_has_a_line_per_model():
    request = {"reasoning_effort": "low"}
    models = [row("a|b", tests_passed=0.625), row("c", 0.0, request=request, served_as=["c-2024"])]
    lines = as_markdown(grouped({"one.json": card(*models)})).splitlines()
    figures = "50.0 | 25.0 to 75.0 | 50.0 (25.0 to 75.0) | 62.5 | 0 | 0 | 0.25 | 4.0 | 1.2.3 | 2026-01-02 | one.json |"
    assert rf"| a\|b | {figures}" in lines
    assert any(line.startswith(r'| c (c-2024) {"reasoning_effort": "low"} | 0.0 | 0.0 to 50.0 |') for line in lines)


def test_a_card_is_read_as_it_was_written(tmp_path):
    written = card(row("a", tests_passed=0.5), browser="firefox")
    (tmp_path / "card.json").write_text(written.text())
    assert read_card(tmp_path / "card.json") == written


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"form": 2}, "no run card of form 1"),
        ({"models": []}, "'models' is empty"),
        ({"models": [row("a") | {"score": {"mean": 2, "low": 0, "high": 3, "tasks": 1}}]}, "no mean from 0 to 1"),
        ({"models": [row("a") | {"name": 3}]}, "name"),
        ({"human": {"name": "h"}}, "'human'"),
        ({"protocol": {"name": "released", "files": {"a": 1}}}, "'protocol'"),
        ({"sampling": []}, "'sampling'"),
    ],
)
def test_what_is_no_card_is_refused_with_its_field(tmp_path, change, words):
    path = tmp_path / "card.json"
    path.write_text(json.dumps(json.loads(card(row("a")).text()) | change))
    with pytest.raises(UserError, match=words) as error:
        read_card(path)
    assert "card.json" in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "no JSON", '{"form": NaN}', '{"form": 1e999}', "\xff"])
def test_what_is_no_json_object_is_refused_with_its_name(tmp_path, text):
    path = tmp_path / "card.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"card\.json"):
        read_card(path)


@pytest.mark.parametrize("name, value", [("tests_passed", 7.0), ("failed", -5), ("turns", -1.0), ("excluded", -1)])
def test_a_figure_that_no_run_has_is_refused(name, value, tmp_path):
    path = tmp_path / "card.json"
    path.write_text(card(row("a", **{name: value})).text())
    with pytest.raises(UserError, match=rf"models\[0\], {name}: {value} is"):
        read_card(path)


def test_the_command_writes_markdown_and_html_of_the_cards(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, one in four().items():
        (tmp_path / name).write_text(one.text())
    done = call("leaderboard.py", *four(), output="board.html")
    assert done.code == 0, done.err
    page, markdown = (tmp_path / "board.html").read_text(), (tmp_path / "board.md").read_text()
    assert page.count("<table") == 3 and markdown.count("| model |") == 3 and "3 tables of 4 cards" in done.out
    for text in ("human name: gpt instead of llama", "sampling temperature: 0.7 instead of 1.0"):
        assert text in page and in_markdown(text) in markdown
    assert call("leaderboard.py", *four(), output="board.html").code == 0  # the same again
    assert "--overwrite" in call("leaderboard.py", "one.json", output="board.html").err
    assert "no/card.json" in call("leaderboard.py", "no/card.json").err
