"""Frontend Design: a scripted agent and a checking vision server, rewards, the critic that sees pages."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import PreferencePair, Task, Trajectory, read_records
from tests.support.api_server import MODEL, ApiServer, text_reply
from tests.support.command_line import call, read_rows, write_rows
from tests.support.tiny_models import save_tiny_chat_model

pytest.importorskip("PIL", reason="needs: pip install -e '.[frontend]'")
from tests.support.browsers import renderer_or_skip  # noqa: E402
from tests.support.vision_server import VisionServer  # noqa: E402

TAILWIND = '<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet">'
ONE_BROWSER = {"browser_workers": 1, "page_timeout": 120}
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
LABEL = re.compile(r"(Plan \w) for the page in (\w+), (?:draft|look) (\d)")


def agent_turn(dialogue: str, count: Counter) -> str:
    """What the scripted agent says: plan A refines until it has the reference, plan B stops after the first draft, plan
    C asks and gives up without a page."""
    color = next(color for color in COLORS if f"A page in {color} with" in dialogue)
    reference = next(task.ground_truth for task in TASKS if f"in {color} " in task.problem_description)
    said = [match for match in LABEL.finditer(dialogue)]
    if not said:
        plan = "ABC"[count[color] % 3]
        count[color] += 1
        shown = "What is at the top?" if plan == "C" else f"\n```html\n{DRAFT}\n```"
        return f"Plan {plan} for the page in {color}, {'draft' if plan != 'C' else 'look'} 1: {shown}"
    plan, turn = said[-1][1], int(said[-1][3])
    if plan == "Plan A" and turn == 1:
        return f"{plan} for the page in {color}, draft 2: {reference}"
    pages = {"Plan A": f"Here.\n{reference}", "Plan B": f"```html\n{DRAFT}\n```", "Plan C": "I do not know how."}
    return f"I WANT TO ANSWER:\n{pages[plan]}"


def draft_of(turn: str) -> str | None:
    """The page that stood where the client's history says `(a page)`."""
    label = LABEL.search(turn)
    if "(a page)" not in turn or label is None:
        return None
    return DRAFT if label[3] == "1" else next(t.ground_truth for t in TASKS if label[2] in t.problem_description)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("frontend")
    save_tiny_chat_model(place / "agent", initializer_range=0.2, max_position_embeddings=8192)
    write_rows(place / "tasks.jsonl", [task.to_dict() for task in TASKS])
    return place


@pytest.fixture(scope="module")
def client():
    """The checking server; it writes HTML once, and more than a client's thousand characters once."""
    spoken = Counter()

    def say(description: str, turns: list[str]) -> str:
        spoken[description] += 1
        number = spoken[description]
        if "blue" in description and number == 1:
            return "Write <h1>Number 1</h1> there."
        if "green" in description and number == 1:
            return "The background should be green. " * 60
        return f"Reply {number} about {description} The heading is missing."

    with renderer_or_skip(workers=1, cache=64, timeout=120) as renderer:
        references = {task.problem_description: task.ground_truth for task in TASKS}

        def cut(description: str, turns: list[str]) -> str:
            said = say(description, turns)
            server.sent.add(("The background should be green. " * 60)[:991].strip())
            return said

        server = VisionServer(references, draft_of, lambda page: renderer.render(page).png, cut)
        with server:
            yield server


@pytest.fixture(scope="module")
def collected(place, client):
    chat, count = ChatFormat.from_pretrained(place / "agent"), Counter()

    def answer(body: dict):
        text = agent_turn(chat.tokenizer.decode(body["prompt"]), count)
        ids = [*chat.tokenizer.encode(text, add_special_tokens=False), chat.eos_ids[0]]
        return text_reply(text, ids, [-1.0] * len(ids))

    with ApiServer(answer) as agent:
        flags = {
            "agent_model": MODEL, "agent_hostname": agent.url, "agent_tokenizer": place / "agent",
            "env_model": MODEL, "hostname": client.api.url, "task_type": "html", "input_path": place / "tasks.jsonl",
            "output_path": place / "trajectories.jsonl", "best_of_n": 3, "max_turns": 4,
            **ONE_BROWSER,
        }  # fmt: skip
        result = call("simulate_interactions.py", **flags)
    assert result.code == 0, result.err
    return result


@pytest.fixture(scope="module")
def rewarded(place, collected):
    result = call("evaluate_html.py", **evaluation(place, "trajectories", "rewarded"), **pair_files(place), k=3)
    assert result.code == 0, result.err
    return result


def evaluation(place, source: str, target: str) -> dict:
    return {
        "input_path": place / f"{source}.jsonl", "output_path": place / f"{target}.jsonl",
        "image_encoder": "efficientnet-lite0", **ONE_BROWSER,
    }  # fmt: skip


def pair_files(place) -> dict:
    return {
        "preference_path": place / "pairs.jsonl", "ground_truth_preference_path": place / "pairs_with_c.jsonl",
        "best_path": place / "best.jsonl",
    }  # fmt: skip


@pytest.mark.slow
def test_the_vision_server_is_sent_the_right_pictures_the_task_and_the_history(place, client, collected):
    assert client.complaints == []
    pictures = Counter((len(turns), shown) for _, turns, shown in client.seen)
    # Plan A is seen with its draft, then with the reference as its draft; B with its draft; C without a page yet.
    # One reply held HTML, and was asked for again.
    assert pictures in ({(1, 2): 7, (1, 1): 3, (3, 2): 3}, {(1, 2): 6, (1, 1): 4, (3, 2): 3})
    records = read_records(place / "trajectories.jsonl", Trajectory)
    assert len(records) == 9 and all(t.ending == "answered" and t.parts for t in records)
    assert sum(t.leaks for t in records) == 1
    replies = [m["content"] for t in records for m in t.dialogue_history[1:] if m["role"] == "user"]
    assert max(map(len, replies)) <= 1000 and not any("<h1>" in reply for reply in replies)


@pytest.mark.slow
def test_an_agent_that_answers_with_the_reference_page_scores_one_and_a_first_draft_less(place, rewarded):
    assert "image encoder     efficientnet-lite0" in rewarded.out
    rows = {row["id"]: row for row in read_rows(place / "rewarded.jsonl")}
    plans = {row["dialogue_history"][1]["content"][5]: [] for row in rows.values()}
    for row in rows.values():
        plans[row["dialogue_history"][1]["content"][5]].append(row)
        assert row["grade"]["encoder"] == "efficientnet-lite0"
    assert [row["reward"] for row in plans["A"]] == [1.0] * 3
    assert all(0 < row["reward"] < 0.9 and row["grade"]["similarity"] == row["reward"] for row in plans["B"])
    for row in plans["C"]:
        assert (row["reward"], row["grade"]["similarity"], row["grade"]["failure"]) == (0.0, None, "no page")
    pairs = read_records(place / "pairs.jsonl", PreferencePair)
    assert len(pairs) == 9 and all(p.extra["chosen_reward"] - p.extra["rejected_reward"] >= 0.1 for p in pairs)
    assert [row["reward"] for row in read_rows(place / "best.jsonl")] == [1.0] * 3
    hinted = read_records(place / "pairs_with_c.jsonl", PreferencePair)
    assert all(TAILWIND in pair.chosen[1]["text"] for pair in hinted)
    assert "already complete" in call("evaluate_html.py", **evaluation(place, "trajectories", "rewarded")).out


@pytest.mark.slow
def test_by_the_released_rules_only_answers_without_a_picture_are_graded_otherwise(place, rewarded):
    flags = evaluation(place, "rewarded", "by_the_release")
    assert "black square" in call("evaluate_html.py", **flags, paper_grader=True).out
    ours, released = (read_rows(place / f"{name}.jsonl") for name in ("rewarded", "by_the_release"))
    black = [row["reward"] for row in released if row["grade"]["failure"] == "no page"]
    assert len(black) == 3 and all(0 < reward < 1 for reward in black)
    for one, other in zip(ours, released, strict=True):
        assert other["grade"]["rules"] == "paper"
        assert one["reward"] == other["reward"] or (one["reward"], one["grade"]["failure"]) == (0.0, "no page")
    refused = call("compare_runs.py", *(str(place / f"{name}.jsonl") for name in ("rewarded", "by_the_release")))
    assert refused.code == 2 and "paper_grader: False and True" in refused.err
    refused = call("compare_runs.py", str(place / "by_the_release.jsonl"), paper="table2")
    assert refused.code == 2 and "efficientnet-lite0" in refused.err
