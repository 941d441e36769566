"""synthesize_tasks.py against a server: kept, dropped and counted, killed and continued, usable in the end."""

import json
import random
import threading
from functools import partial

import pytest

from sweet_rl.models import openai_server
from tests.support.api_server import MODEL, ApiServer, Reply, chat_reply, refusal
from tests.support.command_line import call, count_rows, kill_when, read_rows, write_rows

pytestmark = pytest.mark.slow
SCRIPT = "lab.task_synthesis.synthesize_tasks"
WORDS = "lorry bridge lamp ticket orchard signal harbour parcel violin ledger glacier turnip comet saddle".split()
GOOD = "def f(x):\n    return x * {n} + (x > {n})\n"


def proposal(seed: int) -> str:
    """One of several kinds, by the call's seed: good ones, and each way of being none."""
    chance = random.Random(seed)
    number, kind = chance.randrange(10**6), chance.randrange(6)
    description = " ".join(chance.choices(WORDS, k=14))
    reference = {0: "def f(x):\n    return 1 // 0\n", 1: "def f(x):\n    return 4\n"}.get(kind, GOOD.format(n=number))
    if kind == 2:
        return "Sorry."
    tests = [f"f({n})" for n in range(10)]
    return json.dumps({"description": description, "reference": reference, "tests": tests})


@pytest.fixture(scope="module")
def server():
    with ApiServer(lambda body: Reply(chat_reply(proposal(body["seed"])).body, wait=0.02)) as server:
        yield server


@pytest.fixture(scope="module")
def flags(tmp_path_factory, server):
    place = tmp_path_factory.mktemp("synthesis")
    (place / "corpus.txt").write_text("A bridge takes lorries up to forty tonnes. " * 200)

    def flags(name: str, **more) -> dict:
        usual = {"model_id": MODEL, "hostname": server.url, "corpus_path": place / "corpus.txt", "num_tasks": 6,
                 "output_path": place / f"{name}.jsonl", "concurrency": 4, "workers": 1}  # fmt: skip
        return {**usual, **more}

    return flags


@pytest.fixture(scope="module")
def made(flags):
    done = call(SCRIPT, **flags("made"))
    assert done.code == 0, done.err
    return done


def test_tasks_hold_and_what_was_dropped_is_counted(flags, made):
    rows = read_rows(flags("made")["output_path"])
    assert len(rows) == 6 == len({row["ground_truth"] for row in rows})
    for reason in ("no JSON object", "the reference fails", "a trivial function passes"):
        assert reason in made.out
    path = flags("made")["output_path"]
    checked = path.with_name("graded.jsonl")
    graded = call("evaluate_code.py", input_path=path, output_path=checked, grade_references=True)
    assert graded.code == 0, graded.err
    assert [row["reward"] for row in read_rows(checked)] == [1.0] * 6


def test_the_same_command_again_changes_nothing_and_asks_nothing(flags, made, server):
    before, asked = flags("made")["output_path"].read_bytes(), len(server.requests)
    assert call(SCRIPT, **flags("made")).code == 0
    assert flags("made")["output_path"].read_bytes() == before and len(server.requests) == asked


def test_another_seed_is_another_run(flags, made):
    refused = call(SCRIPT, **flags("made", seed=1))
    assert refused.code == 2 and "seed" in refused.err


def test_killed_and_continued_it_makes_the_same_tasks(flags, made):
    candidates = flags("killed")["output_path"].with_name("killed.jsonl.candidates.jsonl")
    kill_when(lambda: count_rows(candidates) >= 3, SCRIPT, **flags("killed"))
    assert not flags("killed")["output_path"].exists()
    done = call(SCRIPT, **flags("killed"))
    assert done.code == 0, done.err
    assert flags("killed")["output_path"].read_bytes() == flags("made")["output_path"].read_bytes()


def test_too_few_proposals_are_said_and_more_of_them_go_on(flags, made):
    few = call(SCRIPT, **flags("few", max_candidates=4))
    assert few.code == 2 and "6 tasks were wanted" in few.err and read_rows(flags("few")["output_path"])
    done = call(SCRIPT, **flags("few", max_candidates=100))
    assert done.code == 0, done.err
    assert read_rows(flags("few")["output_path"]) == read_rows(flags("made")["output_path"])


def test_tasks_like_those_of_another_file_are_left_out(flags, made, tmp_path):
    rows = read_rows(flags("made")["output_path"])
    write_rows(tmp_path / "test.jsonl", rows[:3])
    done = call(SCRIPT, **flags("without", num_tasks=4, exclude=tmp_path / "test.jsonl"))
    assert done.code == 0, done.err
    own = {row["ground_truth"] for row in read_rows(flags("without")["output_path"])}
    assert len(own) == 4 and not own & {row["ground_truth"] for row in rows[:3]}


def test_proposals_that_could_not_be_had_are_asked_for_again(flags, made, monkeypatch):
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.01)
    quick = partial(openai_server.OpenAIServer, pause=0.01)
    monkeypatch.setattr(openai_server, "OpenAIServer", quick)
    down = threading.Event()
    down.set()

    def answer(body):
        broken = down.is_set() and body["seed"] % 3 == 0
        return refusal(500, "down") if broken else chat_reply(proposal(body["seed"]))

    with ApiServer(answer) as server:
        first = call(SCRIPT, **flags("broken", hostname=server.url, concurrency=1))
        assert first.code == 2 and "Run the same command again" in first.err
        assert not flags("broken")["output_path"].exists()
        down.clear()
        second = call(SCRIPT, **flags("broken", hostname=server.url))
    assert second.code == 0, second.err
    assert read_rows(flags("broken")["output_path"]) == read_rows(flags("made")["output_path"])
