"""Every command line of the release's users, on small files in its formats, through to a trained critic, ranked
candidates, pairs, a policy and an evaluation. Words are added only to keep the runs small; --zero_stage 3 is in
tests/integration/training/test_processes.py.
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest
import torch

from sweet_rl.method.candidate_texts import encoded_candidates
from sweet_rl.method.privileged_information import hint_text
from sweet_rl.models.texts.chat import ChatFormat
from sweet_rl.runs.records import PreferencePair, TurnCandidates, read_records
from sweet_rl.training.examples import NO_EOS, encode_text
from tests.support.api_server import MODEL, ApiServer, chat_reply
from tests.support.browsers import renderer_or_skip
from tests.support.chat_families import small_tokenizer
from tests.support.command_line import call, check_call, read_rows, write_rows
from tests.support.released_files import (
    LLAMA,
    PAGE_TASK,
    TASKS,
    candidates,
    page_pairs,
    page_trajectories,
    trajectories,
    trajectory_pairs,
    turn_pairs,
)
from tests.support.tiny_models import tiny_model

SMALL = "--max_tokens 4 --max_steps 2"
TRAIN = (
    "--save_steps -1 --logging_steps 1 --eval_steps -1 --train_batch_size 8 --micro_train_batch_size 1 --pretrain M "
    "--bf16 --max_epochs 1 --learning_rate 2e-7 --beta 0.1 --flash_attn --gradient_checkpointing --use_wandb KEY "
    "--wandb_run_name N --mean_log_prob"
)
CRITIC = f'{TRAIN} --max_len 8192 --dataset {{}} --chosen_key chosen --rejected_key rejected --response_template "{{}}"'
HEADER = "<|start_header_id|>assistant<|end_header_id|>"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder in which the commands are given: the files of the release, and a tiny model under its users' names."""
    place = tmp_path_factory.mktemp("released")
    before = os.getcwd()
    os.chdir(place)
    tokenizer = small_tokenizer("llama3")
    model = tiny_model("llama", torch.float32, vocab_size=len(tokenizer), max_position_embeddings=16384)
    for name in ("M", "meta-llama/Llama-3.1-8B-Instruct"):
        tokenizer.save_pretrained(name)
        model.save_pretrained(name)
    files = {
        "test": TASKS, "train": [PAGE_TASK], "data": trajectories(LLAMA), "html_t": page_trajectories(LLAMA),
        "g_released": trajectory_pairs(LLAMA), "html_pairs": page_pairs(LLAMA),
        "sampled_released": candidates(LLAMA, ranked=False), "ranked_released": candidates(LLAMA, ranked=True),
        **{f"pairs_{kind}": turn_pairs(LLAMA, kind) for kind in ("no_prompt", "prompt", "sft")},
    }  # fmt: skip
    for name, rows in files.items():
        write_rows(place / f"{name}.jsonl", rows)
    with mock.patch.dict(os.environ, {"WANDB_MODE": "offline"}):
        yield place
    os.chdir(before)


def done(command: str) -> str:
    """What a command prints, once it has ended well."""
    script, *words = command.split(" ")
    words = [word.strip('"') for word in words if word]
    result = call(script, *words)
    assert result.code == 0, f"{command}\n{result.out}\n{result.err}"
    return result.out + result.err


def finished(folder: str) -> dict:
    manifest = json.loads(Path(folder, "manifest.json").read_text())
    assert manifest["status"] == "finished" and "KEY" not in json.dumps(manifest)
    return manifest["summary"]


def test_dialogues_about_code_are_simulated_evaluated_and_looked_at(place):
    with ApiServer(lambda body: chat_reply("Three days.")) as server:
        server_words = f"--hostname 127.0.0.1 --port {server.url.split(':')[2].partition('/')[0]}"
        out = done(
            f"simulate_interactions.py --agent_model M {server_words} --task_type code --num_tasks 1000 --input_path "
            f"test.jsonl --output_path t.jsonl --env_model {MODEL} --batch_size 1000 {SMALL}"
        )
    assert "without effect here: --batch_size" in out and len(read_rows(place / "t.jsonl")) == 2
    assert len(server.requests) == 2
    assert "t.graded.jsonl: 2 graded dialogues" in done("evaluate_code.py t.jsonl")
    assert [row["reward"] for row in read_rows(place / "t.graded.jsonl")] == [0.0, 0.0]
    done("../visualizers/visualize_dialogue_histories.py t.jsonl")
    assert (place / "t.html").is_file()


def test_dialogues_about_pages_are_simulated_evaluated_and_looked_at(place):
    renderer_or_skip().close()
    with ApiServer(lambda body: chat_reply("The heading is white.")) as server:
        server_words = f"--hostname 127.0.0.1 --port {server.url.split(':')[2].partition('/')[0]}"
        done(
            f"simulate_interactions.py --task_type html --num_tasks 1000 --best_of_n 6 --train {server_words} "
            f"--output_path h.jsonl --input_path train.jsonl --env_model {MODEL} --to_continue --temp_path x {SMALL}"
        )
    assert len(read_rows(place / "h.jsonl")) == 6
    offline = "--image_encoder efficientnet-lite0"  # CLIP is not on every machine that tests
    done(f"evaluate_html.py html_t.jsonl --temp_path x --preference_path html_made.jsonl {offline}")
    rewards = [row["reward"] for row in read_rows(place / "html_t.graded.jsonl")]
    assert rewards[0] == pytest.approx(1.0, abs=1e-3) and rewards[1] < 0.95
    assert len(read_rows(place / "html_made.jsonl")) == 1
    done("../visualizers/visualize_design_dialogue_histories.py html_t.jsonl --no_similarity")
    assert (place / "html_t.html").is_file()


def test_the_offline_file_becomes_a_critic_candidates_ranks_pairs_and_a_policy(place):
    """1. the file is graded, its markup recognised; 2. the critic; 3. to 5. candidates, ranks, pairs; 6. the policy."""
    out = done("evaluate_code.py data.jsonl --k 3 --ground_truth_preference_path g.jsonl")
    assert "best of 3" in out and repr(HEADER) in out
    assert [row["reward"] == 1.0 for row in read_rows(place / "data.graded.jsonl")] == [True, False, False] * 2

    moved = CRITIC.replace("2e-7", "1e-2").replace(
        "--max_epochs 1", "--max_epochs 4"
    )  # so far that candidates get other scores in bfloat16
    out = done("train_dpo.py --save_path C " + moved.format("g.jsonl", HEADER))
    assert "without effect here: --flash_attn" in out and ("pip install wandb" in out) == (find_spec("wandb") is None)
    assert (finished("C")["pairs"], finished("C")["dropped"]) == (4, {NO_EOS: 4})

    out = done("sample_best_of_n.py data.jsonl sampled.jsonl --data_fraction 0.1 --max_tokens 4")
    assert "meta-llama/Llama-3.1-8B-Instruct, as in the release" in out
    rows = read_rows(place / "sampled.jsonl")
    assert len(rows) == 3 * 2 and {len(row["additional_outputs"]) for row in rows} == {16}
    done("rank_best_of_n.py --model_id C --input_path sampled.jsonl --output_path ranked.jsonl")
    settings = json.loads((place / "ranked.jsonl.manifest.json").read_text())["settings"]
    assert (settings["reference"], settings["reference_model_id"]) == ("sampled", None)  # as in the release
    done("generate_random_pairs_from_ranks.py ranked.jsonl pairs.jsonl --no_prompt --num_pairs 4")
    assert len(read_rows(place / "pairs.jsonl")) == 6 * 4

    policy = TRAIN.replace("--mean_log_prob", "--nll_loss_coef 0.01 --max_len 16384 --dataset pairs.jsonl")
    done(f"train_dpo.py --save_path P {policy}")
    assert finished("P")["pairs"] == 24


def test_files_that_the_release_made_are_ranked_paired_and_trained_on(place, caplog):
    """1. candidates by a critic without a manifest, and by its sums; 2. pairs of scores; 3. every kind of pairs."""
    done("rank_best_of_n.py sampled_released.jsonl r.jsonl M --save_steps 100")
    done("rank_best_of_n.py sampled_released.jsonl r_sum.jsonl M --no_use_ground_truth --use_sum")
    settings = json.loads((place / "r_sum.jsonl.manifest.json").read_text())["settings"]
    assert (settings["no_prompt"], settings["normalize"], settings["reference"]) == (True, "none", "sampled")

    done("generate_random_pairs_from_ranks.py ranked_released.jsonl p.jsonl --no_prompt --num_pairs 4")
    texts = {(row["chosen"][-1]["text"], row["rejected"][-1]["text"]) for row in read_rows(place / "p.jsonl")}
    words = {(a.split()[-1], b.split()[-1]) for a, b in texts}
    assert words == {(f"{a}.<|eot_id|>", f"{b}.<|eot_id|>") for a in ("one", "three") for b in ("two", "four")}
    done("generate_random_pairs_from_ranks.py ranked_released.jsonl sft.jsonl --get_sft")
    for name in ("ranked_released", "html_pairs", "pairs_prompt"):
        done(f"../visualizers/visualize_dialogue_histories.py {name}.jsonl")

    done("train_dpo.py --save_path C2 " + CRITIC.format("g_released.jsonl", HEADER))
    assert finished("C2")["pairs"] == 4
    done("train_dpo.py --save_path H " + CRITIC.format("html_pairs.jsonl", HEADER))
    flags = TRAIN.replace("--mean_log_prob", "")
    for kind in ("no_prompt", "prompt"):
        caplog.clear()
        done(f"train_dpo.py --save_path {kind} {flags} --dataset pairs_{kind}.jsonl")
        assert finished(kind)["pairs"] == 4 and (repr(HEADER) in caplog.text) == (kind == "no_prompt")
    assert losses("no_prompt") == losses("prompt")
    done("train_sft.py --save_path S --pretrain M --dataset pairs_sft.jsonl --train_batch_size 4")
    assert finished("S")["texts"] == 4


def ids(chat: ChatFormat, text: str) -> list[int]:
    return chat.tokenizer.encode(text, add_special_tokens=False)


def expected_tokens(chat: ChatFormat, row: dict, hint: bool) -> tuple[list[int], list[bool]]:
    """What training must see of a released dialogue, piece by piece from its markup: one BOS, and an EOS where the file
    has one."""
    said = [message["output"] for message in row["dialogue_history"] if message["role"] == "assistant"]
    pieces = [
        (LLAMA.bos, False),
        (hint_text(row["task"]["ground_truth"]) if hint else "", False),
        (LLAMA.system + LLAMA.asks(row["task"]["problem_description"]) + LLAMA.agent, False),
        (said[0] + LLAMA.end, True),
        (LLAMA.asks("I don't know.") + LLAMA.agent, False),
        (said[1], True),
    ]
    return sum((ids(chat, text) for text, _ in pieces), []), [
        trained for text, trained in pieces for _ in ids(chat, text)
    ]


@pytest.mark.parametrize("markup", [{}, {"response_template": LLAMA.agent}])
def test_training_sees_exactly_the_tokens_of_the_file_with_the_markup_recognised_or_given(place, tmp_path, markup):
    check_call(
        "evaluate_code.py", input_path="data.jsonl", output_path=tmp_path / "graded.jsonl", sandbox="none",
        preference_path=tmp_path / "pairs.jsonl", ground_truth_preference_path=tmp_path / "hinted.jsonl", **markup,
    )  # fmt: skip
    chat = ChatFormat.from_pretrained("M")
    rows = {row["id"]: row for row in read_rows(tmp_path / "graded.jsonl")}
    for name in ("pairs", "hinted"):
        pairs = read_records(tmp_path / f"{name}.jsonl", PreferencePair)
        assert len(pairs) >= 4
        for pair in pairs:
            for side in ("chosen", "rejected"):
                text = encode_text(getattr(pair, side), "a pair", chat, pair.tokenizer)
                expected = expected_tokens(chat, rows[pair.extra[f"{side}_id"]], hint=name == "hinted")
                assert (text.ids.tolist(), text.train.tolist()) == expected


def test_candidates_are_ranked_after_the_solution_and_the_policy_learns_their_sampled_tokens(place, tmp_path):
    check_call("sample_best_of_n.py", "data.jsonl", str(tmp_path / "s.jsonl"), model_id="M", best_of_n=4, max_tokens=6)
    check_call("rank_best_of_n.py", model_id="M", input_path=tmp_path / "s.jsonl", output_path=tmp_path / "r.jsonl")
    check_call("generate_random_pairs_from_ranks.py", str(tmp_path / "r.jsonl"), str(tmp_path / "p.jsonl"))
    chat = ChatFormat.from_pretrained("M")
    ranked = {record.id: record for record in read_records(tmp_path / "r.jsonl", TurnCandidates)}
    told = [message for row in read_rows(place / "data.jsonl") for message in row["dialogue_history"]]
    assert {record.input for record in ranked.values()} == {one["input"] for one in told if "input" in one}
    for record in ranked.values():
        scores = [record.judge_scores[i] for i in record.judge_result]
        assert sorted(record.judge_result) == [0, 1, 2, 3] and scores == sorted(scores, reverse=True)
        hint, text = hint_text(record.task.ground_truth), record.input.removeprefix(LLAMA.bos)
        prompt = ids(chat, LLAMA.bos) + ids(chat, hint) + ids(chat, text)
        for sampled, one in zip(record.additional_token_ids, encoded_candidates(record, chat, hint=True), strict=True):
            assert one.ids.tolist() == prompt + sampled
            assert one.train.tolist() == [False] * len(prompt) + [True] * len(sampled)
    for pair in read_records(tmp_path / "p.jsonl", PreferencePair):
        record = ranked[pair.id.rpartition("-")[0]]
        prompt = ids(chat, record.input)
        for text, half in ((pair.chosen, record.judge_result[:2]), (pair.rejected, record.judge_result[2:])):
            one = encode_text(text, "a pair", chat, pair.tokenizer)
            assert one.ids[: len(prompt)].tolist() == prompt
            assert one.train.tolist() == [False] * len(prompt) + [True] * (len(one) - len(prompt))
            assert one.ids[len(prompt) :].tolist() in [record.additional_token_ids[i] for i in half]


def losses(folder: str) -> list[float]:
    return [json.loads(line)["loss"] for line in open(Path(folder, "training_log.jsonl"))]
