"""Frontend Design: an agent and a client of a server, rewards, pairs, and the released rules of grading."""

from __future__ import annotations

import base64
import re
from collections import Counter

import pytest

from sweet_rl.runs.records import PreferencePair, Task, Trajectory, read_records
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply
from tests.support.browsers import renderer_or_skip
from tests.support.command_line import call, check_call, read_rows, write_rows

pytest.importorskip("PIL", reason="needs: pip install -e '.[frontend]'")
pytestmark = pytest.mark.slow

TAILWIND = '<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">'
COLORS = ("red", "blue", "green")
TASKS = [
    Task(
        f"A page in {color} with a picture.",
        f'<html>{TAILWIND}<body class="bg-{color}-500"><h1 class="text-6xl text-white p-8">Number {number}</h1>'
        f'<img src="https://picsum.photos/id/48/640/320"></body></html>',
    )
    for number, color in enumerate(COLORS)
]
DRAFT = f"<html>{TAILWIND}<body><h1>A first draft</h1></body></html>"
ONE_BROWSER = {"browser_workers": 1, "page_timeout": 120}
OFFLINE = {"image_encoder": "efficientnet-lite0", **ONE_BROWSER}


class Players:
    """The replies of both sides, and the pictures that the client was shown.

    Plan A of the agent answers with the reference after a draft, plan B with the draft, plan C without a page.
    """

    def __init__(self) -> None:
        self.plans: Counter = Counter()
        self.shown: dict[str, set[tuple[str, ...]]] = {color: set() for color in COLORS}

    def __call__(self, body: dict) -> Reply:
        content = body["messages"][-1]["content"]
        if isinstance(content, list):
            return chat_reply(self.client(content))
        first = body["messages"][0]["content"]
        task = next(task for task in TASKS if task.problem_description in first)
        said = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
        if not said:
            self.plans[task.problem_description] += 1
            plan = "ABC"[self.plans[task.problem_description] - 1]
            return chat_reply(f"Plan {plan}: " + ("What is at the top?" if plan == "C" else DRAFT))
        pages = {"A": task.ground_truth, "B": f"```html\n{DRAFT}\n```", "C": "I do not know how."}
        return chat_reply(f"I WANT TO ANSWER:\n{pages[said[0][5]]}")

    def client(self, content: list[dict]) -> str:
        text = "".join(part["text"] for part in content if part["type"] == "text")
        color = re.search(r"A page in (\w+) with", text)[1]
        urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
        self.shown[color].add(tuple(url.removeprefix("data:image/png;base64,") for url in urls))
        assert not any(task.ground_truth in text for task in TASKS), "the reference page's source was sent"
        return "The background should be another one. " * 60


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder of dialogues.jsonl, and who played them."""
    renderer_or_skip().close()
    place, players = tmp_path_factory.mktemp("frontend"), Players()
    write_rows(place / "tasks.jsonl", [task.to_dict() for task in TASKS])
    with ApiServer(players) as server:
        check_call(
            "simulate_interactions.py", agent_model=MODEL, agent_hostname=server.url, env_model=MODEL,
            hostname=server.url, task_type="html", input_path=place / "tasks.jsonl",
            output_path=place / "dialogues.jsonl", best_of_n=3, max_turns=4, concurrency=1, **ONE_BROWSER,
        )  # fmt: skip
    return place, players


@pytest.fixture(scope="module")
def rewarded(played, tiny_chat_model):
    place, _ = played
    check_call(
        "evaluate_html.py", input_path=place / "dialogues.jsonl", output_path=place / "rewarded.jsonl",
        tokenizer=tiny_chat_model,
        preference_path=place / "pairs.jsonl", ground_truth_preference_path=place / "pairs_with_c.jsonl", **OFFLINE,
    )  # fmt: skip
    return place


def test_the_client_is_shown_the_draft_and_the_goal_as_the_browser_draws_them(played):
    place, players = played
    with renderer_or_skip(workers=1, timeout=120) as renderer:
        for color, task in zip(COLORS, TASKS, strict=True):
            pages = (DRAFT, task.ground_truth)
            draft, goal = (base64.b64encode(renderer.render(page).png).decode() for page in pages)
            assert players.shown[color] == {(draft, goal), (goal,)}
    dialogues = read_records(place / "dialogues.jsonl", Trajectory)
    assert len(dialogues) == 9 and all(one.ending == "answered" for one in dialogues)
    assert {len(one.dialogue_history[2]["content"]) <= 1000 for one in dialogues} == {True}


def test_an_agent_that_answers_with_the_reference_page_scores_one_and_a_first_draft_less(rewarded):
    plans = {plan: [] for plan in "ABC"}
    for row in read_rows(rewarded / "rewarded.jsonl"):
        plans[row["dialogue_history"][1]["content"][5]].append(row)
        assert row["grade"]["encoder"] == "efficientnet-lite0"
    assert [row["reward"] for row in plans["A"]] == [1.0] * 3
    assert all(0 < row["reward"] < 0.9 and row["grade"]["similarity"] == row["reward"] for row in plans["B"])
    for row in plans["C"]:
        assert (row["reward"], row["grade"]["similarity"], row["grade"]["failure"]) == (0.0, None, "no page")
    pairs = read_records(rewarded / "pairs.jsonl", PreferencePair)
    assert len(pairs) == 9 and all(p.extra["chosen_reward"] - p.extra["rejected_reward"] >= 0.1 for p in pairs)
    hinted = read_records(rewarded / "pairs_with_c.jsonl", PreferencePair)
    assert all(TAILWIND in pair.chosen[1]["text"] for pair in hinted)


def test_by_the_released_rules_only_answers_without_a_picture_are_graded_otherwise(rewarded):
    files = [rewarded / f"{name}.jsonl" for name in ("rewarded", "by_the_release")]
    check_call("evaluate_html.py", input_path=files[0], output_path=files[1], paper_grader=True, **OFFLINE)
    for one, other in zip(*map(read_rows, files), strict=True):
        assert other["grade"]["rules"] == "paper"
        if one["grade"]["failure"] == "no page":  # a black square
            assert one["reward"] == 0 < other["reward"] < 1
        else:
            assert one["reward"] == other["reward"]
    refused = call("compare_runs.py", *map(str, files))
    assert refused.code == 2 and "paper_grader: False and True" in refused.err
    refused = call("compare_runs.py", str(files[1]), paper="table2")
    assert refused.code == 2 and "efficientnet-lite0" in refused.err
