"""From a file to the page: what is shown of each kind, and what cannot be shown."""

import json

import pytest

from sweet_rl.evaluation.compare import compare
from sweet_rl.evaluation.graded_file import read_graded
from sweet_rl.method.critics import ChosenCritic, CriticFlags
from sweet_rl.method.turn_pairs import turn_pairs
from sweet_rl.runs.errors import UserError
from sweet_rl.viewer.show import ViewSettings, show
from tests.support.command_line import write_rows
from tests.support.dialogues import graded
from tests.unit.viewer.test_views import candidates

TEXT = "<|user|>Hello<|end|><|assistant|>"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, records = tmp_path_factory.mktemp("files"), [candidates(0), candidates(1)]
    return {
        "trajectories": write_rows(folder / "graded.jsonl", graded()),
        "compared": write_rows(folder / "compared.jsonl", [*graded(shift=1)[2:], *graded(shift=1)[:2]]),
        "ranked": write_rows(folder / "ranked.jsonl", records),
        "pairs": write_rows(folder / "pairs.jsonl", [pair for one in records for pair in turn_pairs(one, 3, seed=1)]),
        "tasks": write_rows(folder / "tasks.jsonl", [graded()[0].task]),
        "other": write_rows(folder / "other.jsonl", [{"a": 1}]),
        "released_ranked": write_rows(
            folder / "released_ranked.jsonl",
            [{"input": TEXT, "older_output": "a", "additional_outputs": ["a", "b"], "judge_result": [1, 0]}],
        ),
        "released_pairs": write_rows(folder / "released.jsonl", [{"chosen": TEXT + "a", "rejected": TEXT + "b"}]),
    }


def page_of(path: str, tmp_path, critic=None, **more) -> str:
    target = tmp_path / "page.html"
    show(ViewSettings(path, str(target), overwrite=True, **more), critic)
    return target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "count", "texts"),
    [
        ("trajectories", 12, ["hidden tests", "the server gave out"]),
        ("ranked", 2, ["+0.500", "5 candidates"]),
        ("pairs", 6, ["chosen", "rejected"]),
        ("released_ranked", 1, ["&lt;|user|&gt;Hello"]),
        ("released_pairs", 1, ["&lt;|user|&gt;Hello"]),
    ],
)
def test_each_kind_of_file_has_an_entry_for_each_record_and_no_script(files, tmp_path, name, count, texts):
    page = page_of(files[name], tmp_path)
    assert page.count("<article") == page.count('href="#d-') / 2 == count
    assert all(text in page for text in texts)
    assert "<script" not in page and "default-src 'none'" in page.replace("&#39;", "'")


def test_released_dialogues_without_our_fields_are_shown(tmp_path):
    rows = []
    for row in (trajectory.to_dict() for trajectory in graded()):
        task = {key: row["task"][key] for key in ("problem_description", "ground_truth", "test_cases")}
        rows.append({key: row[key] for key in ("dialogue_history", "answer", "reward")} | {"task": task})
    assert page_of(write_rows(tmp_path / "released.jsonl", rows), tmp_path).count("<article") == 12


def test_a_limit_is_said(files, tmp_path, capsys):
    page = page_of(files["trajectories"], tmp_path, limit=3)
    assert page.count("<article") == 3 and "The first 3 records are shown" in page
    assert "The first 3 records are shown" in capsys.readouterr().out
    assert "records are shown" not in page_of(files["trajectories"], tmp_path, limit=12)


def test_the_table_of_a_comparison_comes_first_with_its_figure(files, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install -e '.[plots]'")
    names = {"before": files["trajectories"], "after <b>": files["compared"]}
    comparison = compare({name: [read_graded(path)] for name, path in names.items()}, ["before"])
    (tmp_path / "results.json").write_text(json.dumps(comparison))
    page = page_of(files["trajectories"], tmp_path, results=str(tmp_path / "results.json"))
    head = page.split("<article")[0]
    success = comparison["runs"][0]["success"]["mean"]
    assert f"<td>{100 * success:.1f}</td>" in head and "<td>after &lt;b&gt;</td>" in head
    assert 'src="data:image/svg+xml;base64,' in head
    with pytest.raises(UserError, match="compare_runs.py"):
        page_of(files["trajectories"], tmp_path, results=files["tasks"])


def test_a_critic_gives_its_credit_to_the_turns(files, tmp_path):
    (tmp_path / "short.py").write_text(
        "from dataclasses import dataclass\n"
        "from sweet_rl.method.critics import CriticType\n"
        "@dataclass\nclass Settings:\n    pass\n"
        "class Short:\n    def __init__(self, settings):\n        pass\n"
        "    def scores(self, records):\n"
        "        return [[-len(text) for text in record.additional_outputs] for record in records]\n"
        "CRITIC = CriticType(Settings, Short)\n"
    )
    page = page_of(files["trajectories"], tmp_path, ChosenCritic(str(tmp_path / "short.py")), limit=1)
    said = [message["content"] for message in graded()[0].dialogue_history if message["role"] == "assistant"]
    assert all(f">{-len(text):+.3f}</b>" in page for text in said)


def test_the_sweet_critic_gives_credit_to_tokens(files, tmp_path):
    critic = CriticFlags(model_id="mini", reference="seed_without_c", reference_model_id="mini").chosen
    page = page_of(files["trajectories"], tmp_path, critic, limit=1)
    assert 'class="text tokens' in page and '<span class="t' in page
    with pytest.raises(UserError, match="--reference_model_id"):
        page_of(files["trajectories"], tmp_path, CriticFlags(model_id="mini", reference="sampled").chosen)


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("missing.jsonl", {}, "does not exist"),
        ("tasks", {}, "holds tasks"),
        ("other", {}, "neither a trajectory"),
        ("trajectories", {"limit": 0}, "--limit"),
    ],
)
def test_what_cannot_be_shown_is_said(files, tmp_path, name, more, words):
    with pytest.raises(UserError, match=words):
        page_of(files.get(name, str(tmp_path / name)), tmp_path, **more)
    assert not (tmp_path / "page.html").exists()


def test_the_output_is_never_the_input(tmp_path):
    with pytest.raises(UserError, match="also the input"):
        ViewSettings(str(tmp_path / "a.html"))
    assert str(ViewSettings("a.jsonl").page) == "a.html" and str(ViewSettings("a.jsonl", "b.html").page) == "b.html"
