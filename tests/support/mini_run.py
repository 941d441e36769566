"""One small run of the pipeline on mini tasks: a call of each script that works, in order, on what the others made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.support.command_line import call


@dataclass(frozen=True)
class Step:
    """A script and a call of it that works.

    Attributes:
        script: Its file in scripts/.
        flags: The flags of the call; `{run}` is the folder of the inputs and `{out}` that of the outputs.
        outputs: The flags that name an output.
        source: The flag that names its input.
        needs: A field that each row of the input must have.
        wrong: A value of another type than that of the field.
        models: The flags that name a model whose weights it loads.
        other: Flags of which none may change when a run is continued.
    """

    script: str
    flags: dict[str, str]
    outputs: tuple[str, ...] = ("output_path",)
    source: str = "input_path"
    needs: str = ""
    wrong: object = None
    models: tuple[str, ...] = ()
    other: dict[str, str] = field(default_factory=dict)

    def given(self, run: Path, out: Path, **changes: object) -> dict[str, object]:
        """The flags of the call, with the folders filled in."""
        return {name: value.format(run=run, out=out) for name, value in self.flags.items()} | changes


TRAINING = {
    "learning_rate": "0.1", "max_epochs": "2", "train_batch_size": "4", "seed": "1", "lora_rank": "4", "max_len": "700",
    "warmup_ratio": "0.5", "weight_decay": "0.5", "adam_betas": "0.5,0.6", "min_learning_rate_ratio": "0.5",
}  # fmt: skip
SHORT = {"max_epochs": "1", "train_batch_size": "2", "max_samples": "4"}
PAIRED = {
    "outputs": ("save_path",), "source": "dataset", "needs": "rejected", "wrong": ["no part"], "models": ("pretrain",)
}  # fmt: skip
STEPS = {
    "tasks": Step(
        "make_mini_tasks.py", {"num_train": "6", "num_test": "3", "output_dir": "{out}/tasks"}, ("output_dir",), "",
        other={"num_test": "4", "num_train": "7", "seed": "1", "world": "hard"},
    ),
    "dialogues": Step(
        "simulate_interactions.py",
        {"agent_model": "mini", "env_model": "mini", "input_path": "{run}/tasks/train.jsonl", "best_of_n": "3",
         "output_path": "{out}/dialogues.jsonl", "max_tokens": "60", "agent_prompt_path": "mini_agent.txt"},
        needs="problem_description", wrong=7, models=("agent_model",),
        other={"max_turns": "1", "temperature": "0.5", "max_tokens": "4", "best_of_n": "2", "num_tasks": "1",
               "agent_prompt_path": "code_agent.txt", "seed": "1", "agent_bf16": "True", "shard": "1/2"},
    ),
    "graded": Step(
        "evaluate_code.py",
        {"input_path": "{run}/dialogues.jsonl", "output_path": "{out}/graded.jsonl", "tokenizer": "mini",
         "preference_path": "{out}/dialogue_pairs.jsonl", "sandbox": "none",
         "ground_truth_preference_path": "{out}/critic_pairs.jsonl"},
        ("output_path", "preference_path"), needs="dialogue_history", wrong="no list",
        other={"timeout": "2", "min_gap": "0.5"},
    ),
    "critic": Step(
        "train_dpo.py",
        {"pretrain": "mini", "dataset": "{run}/critic_pairs.jsonl", "save_path": "{out}/critic",
         "learning_rate": "1e-3", **SHORT},
        **PAIRED, other={"beta": "0.7", "nll_loss_coef": "0.5", "normalize": "turn", **TRAINING},
    ),
    "candidates": Step(
        "sample_best_of_n.py",
        {"model_id": "mini", "input_path": "{run}/graded.jsonl", "output_path": "{out}/candidates.jsonl",
         "best_of_n": "4", "max_tokens": "40", "data_fraction": "0.3"},
        needs="dialogue_history", wrong=[{"role": "robot", "content": ""}], models=("model_id",),
        other={"data_fraction": "0.5", "best_of_n": "3", "temperature": "0.5", "max_tokens": "4", "seed": "1",
               "bf16": "True", "shard": "1/2"},
    ),
    "ranked": Step(
        "rank_best_of_n.py",
        {"model_id": "{run}/critic", "reference": "sampled", "input_path": "{run}/candidates.jsonl",
         "output_path": "{out}/ranked.jsonl"},
        needs="additional_outputs", wrong="no list", models=("model_id",),
        other={"normalize": "none", "no_prompt": "True", "shard": "1/2"},
    ),
    "pairs": Step(
        "generate_random_pairs_from_ranks.py",
        {"input_path": "{run}/ranked.jsonl", "output_path": "{out}/pairs.jsonl"},
        needs="older_output", wrong=7, other={"num_pairs": "1", "get_sft": "True", "seed": "1"},
    ),
    "policy": Step(
        "train_dpo.py",
        {"pretrain": "mini", "dataset": "{run}/pairs.jsonl", "save_path": "{out}/policy", **SHORT},
        **PAIRED,
    ),
    "imitation": Step(
        "train_sft.py",
        {"pretrain": "mini", "dataset": "{run}/graded.jsonl", "save_path": "{out}/imitation", "min_reward": "0.0",
         **SHORT},
        ("save_path",), "dataset", "task", "no object", ("pretrain",),
        {"learning_rate": "0.1", "min_reward": "0.5", **TRAINING},
    ),
    "value": Step(
        "train_value.py",
        {"pretrain": "mini", "dataset": "{run}/critic_pairs.jsonl", "save_path": "{out}/value", **SHORT},
        **PAIRED, other={"beta": "0.7", **TRAINING},
    ),
    "credit": Step(
        "score_turns.py",
        {"model_id": "{run}/critic", "reference_model_id": "mini", "input_path": "{run}/graded.jsonl",
         "output_path": "{out}/credit.jsonl"},
        needs="dialogue_history", wrong="no list", models=("model_id",),
        other={"normalize": "none", "no_prompt": "True"},
    ),
    "rewarded": Step(
        "grade_candidates.py",
        {"input_path": "{run}/ranked.jsonl", "output_path": "{out}/rewarded.jsonl", "task_type": "mini",
         "sandbox": "none"},
        needs="additional_outputs", wrong="no list",
        other={"timeout": "2", "memory_mb": "100", "limit": "1", "task_type": "code"},
    ),
    "played": Step(
        "simulate_interactions.py",
        {"agent_model": "{run}/policy", "env_model": "mini", "input_path": "{run}/tasks/test.jsonl",
         "output_path": "{out}/played.jsonl", "max_tokens": "60"},
        models=("agent_model",),
    ),
    "results": Step(
        "evaluate_code.py",
        {"input_path": "{run}/played.jsonl", "output_path": "{out}/results.jsonl", "sandbox": "none"},
    ),
    "exported": Step(
        "export.py", {"input_path": "{run}/graded.jsonl", "output_path": "{out}/exported.jsonl"},
        needs="dialogue_history", wrong="no list", other={"tokenizer": "mini", "limit": "1"},
    ),
    "table": Step(
        "compare_runs.py",
        {"runs": "policy={run}/results.jsonl", "output_path": "{out}/table.json", "markdown_path": "{out}/table.md"},
        ("output_path", "markdown_path"), "runs", "dialogue_history", 7,
    ),
}  # fmt: skip


def make_mini_run(folder: Path) -> None:
    """All steps, one after the other, into one folder."""
    for name, step in STEPS.items():
        done = call(step.script, **step.given(folder, folder))
        assert done.code == 0, f"{name}: {done.out}\n{done.err}"
