"""A call of each script that works, with inputs for it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from sweet_rl.dialogues.mini.tasks import make_tasks
from sweet_rl.dialogues.mini.worlds import QUICK
from sweet_rl.models.texts.chat import ChatFormat
from tests.support.command_line import write_rows

ANSWER = "I WANT TO ANSWER:\n"


@dataclass(frozen=True)
class Script:
    """A script and a call of it that works.

    Attributes:
        name: a file in scripts/.
        flags: of the call; in a value `{place}` is the folder of inputs and `{out}` the folder of outputs.
        outputs: flags that name an output.
        number: a flag that takes a number.
        source: the flag that names the input.
        needs: a field that every row of the input must have.
        wrong: a value of that field that has the wrong type.
        models: flags that name a model.
        other: flags of which none may be another when a run is continued.
    """

    name: str
    flags: dict[str, str]
    outputs: tuple[str, ...]
    number: str = "seed"
    source: str = ""
    needs: str = ""
    wrong: object = None
    models: tuple[str, ...] = ()
    other: dict[str, str] = field(default_factory=dict)

    def given(self, place: Path, out: Path, **changes) -> dict[str, str]:
        """The flags of the call, with the folders filled in."""
        filled = {name: value.format(place=place, out=out) for name, value in self.flags.items()}
        return filled | {name: value if value is None else str(value) for name, value in changes.items()}

    def reading(self, path: Path | str) -> dict[str, str]:
        """The flag that makes it read `path`."""
        return {self.source: f"a={path},b={path}" if self.source == "runs" else str(path)}


FAST = {"max_tokens": "3"}
TRAINING = {
    "learning_rate": "0.1", "max_epochs": "2", "train_batch_size": "4", "seed": "1", "lora_rank": "4", "max_len": "500",
    "warmup_ratio": "0.5", "weight_decay": "0.5", "adam_betas": "0.5,0.6",
    "min_learning_rate_ratio": "0.5",
}  # fmt: skip
SCRIPTS = (
    Script(
        "simulate_interactions.py",
        {"agent_model": "{place}/model", "env_model": "mini", "input_path": "{place}/tasks.jsonl",
         "output_path": "{out}/made.jsonl", "max_turns": "2", "agent_prompt_path": "mini_agent.txt", **FAST},
        ("output_path",), "max_turns", "input_path", "problem_description", 7, ("agent_model",),
        {"max_turns": "1", "temperature": "0.5", "max_tokens": "4", "best_of_n": "2", "num_tasks": "1",
         "agent_prompt_path": "code_agent.txt", "seed": "1", "agent_bf16": "True",
         "shard": "1/2"},
    ),
    Script(
        "evaluate_code.py",
        {"input_path": "{place}/trajectories.jsonl", "output_path": "{out}/made.jsonl",
         "preference_path": "{out}/pairs.jsonl", "tokenizer": "{place}/model", "sandbox": "none"},
        ("output_path", "preference_path"), "timeout", "input_path", "dialogue_history", "no list", ("tokenizer",),
        {"timeout": "2", "min_gap": "0.5"},
    ),
    Script(
        "train_dpo.py",
        {"pretrain": "{place}/model", "dataset": "{place}/pairs.jsonl", "save_path": "{out}/made",
         "train_batch_size": "2"},
        ("save_path",), "beta", "dataset", "rejected", ["no part"], ("pretrain", "ref_pretrain"),
        {"beta": "0.7", "nll_loss_coef": "0.5", "normalize": "turn", **TRAINING},
    ),
    Script(
        "train_sft.py",
        {"pretrain": "{place}/model", "dataset": "{place}/graded.jsonl", "save_path": "{out}/made",
         "train_batch_size": "2"},
        ("save_path",), "learning_rate", "dataset", "task", "no object", ("pretrain",),
        {"learning_rate": "0.1", "min_reward": "0.5", **TRAINING},
    ),
    Script(
        "train_value.py",
        {"pretrain": "{place}/model", "dataset": "{place}/pairs.jsonl", "save_path": "{out}/made",
         "train_batch_size": "2"},
        ("save_path",), "beta", "dataset", "rejected", ["no part"], ("pretrain",), {"beta": "0.7", **TRAINING},
    ),
    Script(
        "score_turns.py",
        {"model_id": "{place}/model", "reference_model_id": "{place}/model", "input_path": "{place}/graded.jsonl",
         "output_path": "{out}/made.jsonl"},
        ("output_path",), "token_budget", "input_path", "dialogue_history", "no list",
        ("model_id", "reference_model_id"), {"normalize": "none", "no_prompt": "True"},
    ),
    Script(
        "sample_best_of_n.py",
        {"model_id": "{place}/model", "input_path": "{place}/graded.jsonl", "output_path": "{out}/made.jsonl",
         "best_of_n": "2", **FAST},
        ("output_path",), "best_of_n", "input_path", "dialogue_history", [{"role": "robot", "content": ""}],
        ("model_id",),
        {"data_fraction": "0.5", "best_of_n": "3", "temperature": "0.5", "max_tokens": "4", "seed": "1",
         "bf16": "True", "shard": "1/2"},
    ),
    Script(
        "grade_candidates.py",
        {"input_path": "{place}/ranked.jsonl", "output_path": "{out}/made.jsonl", "task_type": "mini",
         "sandbox": "none"},
        ("output_path",), "timeout", "input_path", "additional_outputs", "no list",
        other={"timeout": "2", "memory_mb": "100", "limit": "1", "task_type": "code"},
    ),
    Script(
        "rank_best_of_n.py",
        {"model_id": "{place}/model", "reference_model_id": "{place}/model", "input_path": "{place}/ranked.jsonl",
         "output_path": "{out}/made.jsonl"},
        ("output_path",), "token_budget", "input_path", "additional_outputs", "no list",
        ("model_id", "reference_model_id"),
        {"normalize": "none", "no_prompt": "True", "shard": "1/2"},
    ),
    Script(
        "generate_random_pairs_from_ranks.py",
        {"input_path": "{place}/ranked.jsonl", "output_path": "{out}/made.jsonl"},
        ("output_path",), "num_pairs", "input_path", "older_output", 7, (),
        {"num_pairs": "1", "get_sft": "True", "seed": "1"},
    ),
    Script(
        "export.py",
        {"input_path": "{place}/graded.jsonl", "output_path": "{out}/made.jsonl"},
        ("output_path",), "limit", "input_path", "dialogue_history", "no list", (),
        {"tokenizer": "mini", "limit": "1"},
    ),
    Script(
        "compare_runs.py",
        {"runs": "a={place}/graded.jsonl,b={place}/graded.jsonl", "baselines": "a", "output_path": "{out}/made.json",
         "markdown_path": "{out}/made.md"},
        ("output_path", "markdown_path"), "seed", "runs", "dialogue_history", 7,
    ),
    Script(
        "make_mini_tasks.py",
        {"num_train": "3", "num_test": "2", "output_dir": "{out}/made"},
        ("output_dir",), "num_train", other={"num_test": "3", "num_train": "4", "seed": "1", "world": "hard"},
    ),
)  # fmt: skip


def named(value) -> str:
    """The name of a script or flag in the name of a test."""
    return value.name.removesuffix(".py") if isinstance(value, Script) else str(value)


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_chat_model) -> Path:
    """Good input for every script, and models that are broken in different ways."""
    place = tmp_path_factory.mktemp("place")
    model = shutil.copytree(tiny_chat_model, place / "model")
    tasks = make_tasks(2, seed=5)
    write_rows(place / "tasks.jsonl", tasks)
    rows = [
        {
            "task": task,
            "dialogue_history": [
                {"role": "user", "content": task["problem_description"]},
                {"role": "assistant", "content": ANSWER + said},
            ],
            "answer": said,
            "reward": None,
        }
        for task in tasks
        for said in (task["ground_truth"], "def wrong(): pass")
    ]
    write_rows(place / "trajectories.jsonl", rows)
    graded = [
        {**row, "reward": reward, "grade": {"failure": None, "ungradable": None, "level": "seccomp", "tests": []}}
        for row, reward in zip(rows, [1.0, 0.0] * 2, strict=True)
    ]
    write_rows(place / "graded.jsonl", graded)
    chat = ChatFormat.from_pretrained(model)
    prompt = chat.prompt(rows[0]["dialogue_history"][:1])
    texts = [[*prompt, {"text": text + chat.eos_text, "train": True}] for text in ("a", "b", "c", "d")]
    write_rows(place / "pairs.jsonl", [{"chosen": a, "rejected": b} for a, b in zip(texts, texts[1:], strict=False)])
    useful = next(t for t in QUICK.topics if t.name == tasks[0]["mini"]["rules"][0][0]).questions[0]
    candidates = {
        "task": tasks[0], "turn": 0, "input": prompt, "older_output": "Why?", "judge_scores": [0.1, 0.2],
        "additional_outputs": [useful, "What colour is the sky?"], "judge_result": [1, 0], "eos_text": chat.eos_text,
    }  # fmt: skip
    write_rows(place / "ranked.jsonl", [candidates, {**candidates, "turn": 1, "older_output": "How?"}])

    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(place / "no_template")
    (place / "nothing").mkdir()
    lone = {name: value for name, value in candidates.items() if name not in ("task", "judge_result", "judge_scores")}
    write_rows(place / "untold.jsonl", [lone])
    write_rows(place / "unranked.jsonl", [{**lone, "task": tasks[0]}])
    plain = {name: tasks[0][name] for name in ("problem_description", "ground_truth", "test_cases")}
    write_rows(place / "plain.jsonl", [plain])
    write_rows(place / "strings.jsonl", [{"chosen": "Q: a A: b", "rejected": "Q: a A: c"}])
    for name in ("torn_weights", "torn_config"):
        shutil.copytree(model, place / name)
    weights = place / "torn_weights" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    (place / "torn_config" / "config.json").write_text('{"model_type": "lla')
    return place
