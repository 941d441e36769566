"""Every parameter of every script of the release: real here, named in a line, or an error that names what to use.

The tables are those of the release's interface, written by hand.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from functools import cache

import pytest

from sweet_rl.runs import released
from sweet_rl.runs.cli import parse_flags
from sweet_rl.runs.errors import UserError
from tests.support.command_line import ROOT, call, words_of

WHERE = {
    "simulate_interactions": released.SIMULATE,
    "evaluate_code": released.EVALUATE_CODE,
    "evaluate_html": released.EVALUATE_HTML,
    "sample_best_of_n": released.SAMPLE,
    "rank_best_of_n": released.RANK,
    "generate_random_pairs_from_ranks": released.PAIRS,
    "filter_websites": released.FILTER,
    "train_dpo": released.TRAIN_DPO,
    "visualize_dialogue_histories": released.VISUALIZE,
    "visualize_design_dialogue_histories": released.VISUALIZE_DESIGN,
}
# script: (every parameter in the order of the release, the flags here that they give, those answered by a line)
TABLE = {
    "simulate_interactions": (
        "hostname=host input_path=a.jsonl output_path=b.jsonl user_prompt_path=auto agent_prompt_path=own.txt "
        "agent_model=M env_model=auto batch_size=1000 num_tasks=7 max_steps=3 best_of_n=6 train=True task_type=html "
        "port=8123 temperature=0.5 temp_path=/tmp/pictures to_continue=True",
        {"hostname": "host:8123", "input_path": "a.jsonl", "output_path": "b.jsonl", "agent_prompt_path": "own.txt",
         "agent_model": "M", "env_model": "Qwen/Qwen2-VL-72B-Instruct", "num_tasks": 7, "max_turns": 3, "best_of_n": 6,
         "task_type": "html", "temperature": 0.5},
        "batch_size train temp_path to_continue",
    ),
    "evaluate_code": (
        "saved_path=t.jsonl k=3 preference_path=p.jsonl ground_truth_preference_path=g.jsonl",
        {"input_path": "t.jsonl", "k": 3, "preference_path": "p.jsonl", "ground_truth_preference_path": "g.jsonl"},
        "",
    ),
    "evaluate_html": (
        "saved_path=t.jsonl k=3 temp_path=/tmp/x preference_path=p.jsonl ground_truth_preference_path=g.jsonl",
        {"input_path": "t.jsonl", "k": 3, "preference_path": "p.jsonl", "ground_truth_preference_path": "g.jsonl"},
        "temp_path",
    ),
    "sample_best_of_n": (
        "input_path=a.jsonl output_path=b.jsonl agent_model=M temperature=0.5 best_of_n=4 data_fraction=0.1",
        {"input_path": "a.jsonl", "output_path": "b.jsonl", "model_id": "M", "temperature": 0.5, "best_of_n": 4,
         "data_fraction": 0.1},
        "",
    ),
    "rank_best_of_n": (
        "input_path=a.jsonl output_path=b.jsonl model_id=C no_use_ground_truth=True use_sum=True save_steps=100",
        {"input_path": "a.jsonl", "output_path": "b.jsonl", "model_id": "C", "no_prompt": True, "normalize": "none"},
        "save_steps",
    ),
    "generate_random_pairs_from_ranks": (
        "input_path=a.jsonl output_path=b.jsonl get_sft=True no_prompt=True num_pairs=4",
        {"input_path": "a.jsonl", "output_path": "b.jsonl", "get_sft": True, "num_pairs": 4},
        "no_prompt",
    ),
    "filter_websites": (
        "saved_path=t.jsonl filtered_path=b.jsonl temp_path=/tmp/x",
        {"input_path": "t.jsonl", "output_path": "b.jsonl"},
        "temp_path",
    ),
    "visualize_dialogue_histories": ("saved_path=t.jsonl", {"input_path": "t.jsonl"}, ""),
    "visualize_design_dialogue_histories": (
        "saved_path=t.jsonl temp_path=/tmp/x", {"input_path": "t.jsonl"}, "temp_path"
    ),
}  # fmt: skip
# train_dpo: the parameters that are the same flag here, those that are another one, and those answered by a line
SAME = {
    "save_path": "C", "save_steps": -1, "logging_steps": 1, "micro_train_batch_size": 1, "train_batch_size": 8,
    "max_norm": 1.0, "gradient_checkpointing": True, "seed": 42, "zero_stage": 3, "bf16": True, "learning_rate": 2e-7,
    "adam_offload": True, "max_epochs": 4, "beta": 0.1, "ipo": True, "label_smoothing": 0.1, "nll_loss_coef": 0.01,
    "load_in_4bit": True, "lora_rank": 8, "lora_alpha": 16.0, "lora_dropout": 0.1, "pretrain": "M", "ref_pretrain": "R",
    "dataset": "g.jsonl", "max_samples": 100, "max_len": 8192, "response_template": "<|h|>", "mean_log_prob": True,
}  # fmt: skip
OTHER = {
    "--lr_warmup_ratio 0.1 --l2 0.01": {"warmup_ratio": 0.1, "weight_decay": 0.01},
    "--adam_betas 0.8 0.9 --target_modules q_proj v_proj": {
        "adam_betas": (0.8, 0.9), "target_modules": ("q_proj", "v_proj"),
    },
    "--dataset_probs 1.0 --input_template None": {},
    "--prompt_key prompt --chosen_key chosen --rejected_key rejected": {},
    "--use_tensorboard logs": {"report_to": "tensorboard"},
    "--wandb_org O --wandb_group G --wandb_project P --wandb_run_name N": {},
}  # fmt: skip
LINES = (
    "--ckpt_path ckpt --max_ckpt_num 3 --max_ckpt_mem 100 --load_checkpoint --disable_fast_tokenizer --local_rank 0 "
    "--ref_offload --zpg 8 --flash_attn --grad_accum_dtype fp32 --overlap_comm --gradient_checkpointing_use_reentrant "
    "--packing_samples --train_split train --eval_split test --eval_steps -1 --aux_loss_coef 0 --ring_attn_size 1 "
    "--use_wandb KEY"
)
REFUSED = [
    ("train_dpo", "--apply_chat_template", "--tokenizer"),
    ("train_dpo", "--chosen_key good", "chosen"),
    ("train_dpo", "--dataset a.jsonl,b.jsonl", "join"),
    ("train_dpo", "pairs.jsonl", "'pairs.jsonl' has no flag"),
    ("evaluate_code", "a.jsonl 1 b.jsonl c.jsonl d.jsonl", "saved_path, k, preference_path"),
    ("evaluate_code", "--saved_path a.jsonl --input_path b.jsonl", "--saved_path and --input_path"),
]


@cache
def main_of(script: str):
    folder = "visualizers" if script.startswith("visualize") else "scripts"
    return runpy.run_path(str(ROOT / folder / f"{script}.py"))["main"]


def flags(script: str, words: str | list[str]) -> dict:
    """The values of the flags here that a command line of the release gives."""
    return parse_flags(main_of(script), words.split() if isinstance(words, str) else words, WHERE[script])


@pytest.mark.parametrize("script", WHERE)
def test_every_script_takes_the_command_lines_of_its_table(script):
    words = ["--input_template", "5"] if script == "train_dpo" else ["x"] * 20
    result = call(f"../visualizers/{script}.py" if script.startswith("visualize") else f"{script}.py", *words)
    expected = (
        "--input_template 5 is not possible"
        if script == "train_dpo"
        else f"By position it takes {', '.join(WHERE[script].order)}."
    )
    assert result.code == 2 and expected in result.err


@pytest.mark.parametrize("script", TABLE)
def test_every_parameter_is_known_by_position_and_by_name(script, capsys):
    parameters, expected, answered = TABLE[script]
    assert flags(script, [word.partition("=")[2] for word in parameters.split()]) == expected
    assert flags(script, [f"--{word}" for word in parameters.split()]) == expected
    printed = capsys.readouterr().out
    named = [line for line in printed.splitlines() if line.startswith("accepted, without effect here: ")]
    assert [name for name in answered.split() if sum(f"--{name}" in line for line in named) != 2] == []


def test_every_parameter_of_the_training_is_known(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # as without wandb
    assert flags("train_dpo", words_of(SAME)) == SAME
    for words, expected in OTHER.items():
        assert flags("train_dpo", words) == expected
    capsys.readouterr()
    assert flags("train_dpo", LINES) == {}
    printed = capsys.readouterr().out
    assert [word for word in LINES.split() if word.startswith("--") and word not in printed] == []


@pytest.mark.parametrize(("script", "words", "named"), REFUSED, ids=[row[1] for row in REFUSED])
def test_what_cannot_be_honoured_is_an_error_that_names_what_to_use(script, words, named):
    with pytest.raises(UserError) as error:
        flags(script, words)
    assert named in str(error.value)


def test_without_a_model_the_paper_s_models_are_taken_and_named(capsys, tmp_path):
    found = flags("simulate_interactions", "--hostname h --task_type code --input_path a --output_path b")
    assert found["agent_model"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert found["env_model"] == "meta-llama/Llama-3.1-70B-Instruct"
    assert flags("sample_best_of_n", "a b --data_fraction 0.1")["model_id"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert capsys.readouterr().out.count("meta-llama/Llama-3.1-8B-Instruct, as in the release") == 2
    assert "agent_model" not in flags("simulate_interactions", "--input_path a")  # no server: not a released command
    config = tmp_path / "mine.yaml"
    config.write_text("model_id: mine")
    assert flags("sample_best_of_n", f"a b --config {config}")["model_id"] == "mine"


def test_values_that_mean_several_are_translated(capsys):
    assert flags("simulate_interactions", "--hostname a,b --port 81")["hostname"] == "a:81,b:81"
    adapter = "--lora_rank 0 --lora_alpha 16 --target_modules q_proj v_proj --lora_dropout 0 --beta 0.2"
    assert flags("train_dpo", adapter) == {"beta": 0.2}  # an adapter of rank 0 is none


def test_wandb_gets_its_key_and_names_as_variables_and_no_word_or_flag_keeps_the_key(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(sys, "argv", ["train_dpo.py", "--use_wandb", "secret", "--use_wandb=secret"])
    found = flags("train_dpo", "--use_wandb secret --wandb_project P --wandb_run_name N --wandb_org O --wandb_group G")
    assert found == {"report_to": "wandb"}
    assert os.environ == {
        "WANDB_API_KEY": "secret", "WANDB_PROJECT": "P", "WANDB_NAME": "N", "WANDB_ENTITY": "O", "WANDB_RUN_GROUP": "G",
    }  # fmt: skip
    assert sys.argv == ["train_dpo.py", "--use_wandb", "***", "--use_wandb=***"]  # wandb records them


def test_the_lines_are_printed_by_the_first_process_only(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    flags("train_dpo", "--flash_attn")
    assert capsys.readouterr().out == ""
