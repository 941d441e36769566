"""A file of candidates -> the same file, ranked; continued where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tqdm import tqdm

from sweet_rl.chat import ChatFormat
from sweet_rl.credit.ranking import rank
from sweet_rl.errors import UserError
from sweet_rl.models.load import model_input, model_path
from sweet_rl.models.loadable import check_loadable
from sweet_rl.records import TurnCandidates, read_records
from sweet_rl.runs import DIRECTORY_MANIFEST, open_run
from sweet_rl.training.logps import score_texts, shares_prompts
from sweet_rl.training.losses import NORMALIZE
from sweet_rl.training.weights import load_frozen

TURNS_AT_ONCE = 64
REFERENCES = ("seed", "sampled")


def rank_file(
    model_id: str,
    input_path: str,
    output_path: str,
    reference: str = "seed",
    reference_model_id: str | None = None,
    hint: bool = True,
    normalize: str = "turn",
    bf16: bool = False,
    token_budget: int = 16384,
    limit: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> dict:
    """Ranks every record of `input_path`. Returns the summary. Raises UserError before anything is
    written.
    """
    if reference not in REFERENCES:
        raise UserError(f"--reference is {reference!r}; it must be seed or sampled.")
    if normalize not in NORMALIZE:
        raise UserError(f"--normalize is {normalize!r}; it must be one of {', '.join(NORMALIZE)}.")
    if reference == "sampled" and reference_model_id:
        raise UserError(
            "--reference sampled takes the stored log-probs; --reference_model_id is for --reference seed."
        )
    if reference == "seed":
        reference_model_id = reference_model_id or seed_of(model_id)
    records = read_records(input_path, TurnCandidates, limit)
    if token_budget < 1:
        raise UserError(f"--token_budget is {token_budget}; it must be at least 1.")
    chat = ChatFormat.from_pretrained(model_path(model_id))
    for model in filter(None, (model_id, reference_model_id)):
        check_loadable(model_path(model))
    settings = {
        "model_id": model_id, "reference": reference, "reference_model_id": reference_model_id, "hint": hint,
        "normalize": normalize, "bf16": bf16, "limit": limit, "seed": seed,
    }  # fmt: skip
    inputs = [input_path, model_input(model_id)]
    if reference_model_id:
        inputs.append(model_input(reference_model_id))
    with open_run(output_path, settings, inputs, overwrite) as run:
        if run.complete:
            print(f"{output_path}: already complete")
            return run.summary or {}
        todo = [record for record in records if record.id not in run.done]
        critic = _scorer(model_id, bf16, token_budget)
        seed_model = _scorer(reference_model_id, bf16, token_budget) if reference == "seed" else None
        candidates = sum(len(record.additional_outputs) for record in todo)
        with tqdm(total=candidates, desc="candidates ranked") as bar:
            for start in range(0, len(todo), TURNS_AT_ONCE):
                for record in rank(
                    todo[start : start + TURNS_AT_ONCE], chat, critic, seed_model, hint, normalize
                ):
                    run.write(record.to_dict())
                    bar.update(len(record.additional_outputs))
        summary = {
            "turns": len(records),
            "candidates": sum(len(record.additional_outputs) for record in records),
        }
        run.finish(summary)
        print(f"{output_path}: {summary['candidates']} candidates of {summary['turns']} turns ranked")
        return summary


def seed_of(model_id: str) -> str:
    """The model that a critic was trained from, by its manifest. Raises UserError if it does not say."""
    try:
        settings = json.loads((Path(model_id) / DIRECTORY_MANIFEST).read_text(encoding="utf-8"))["settings"]
        return settings["ref_pretrain"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"which model {model_id} was trained from is not known (no {DIRECTORY_MANIFEST} of train_dpo.py "
            "in it). Give --reference_model_id MODEL, or --reference sampled."
        ) from error


def _scorer(model_id: str, bf16: bool, token_budget: int):
    model: torch.nn.Module = load_frozen(model_path(model_id), torch.bfloat16 if bf16 else torch.float32)
    share = shares_prompts(model)
    return lambda texts: score_texts(model, texts, token_budget, share)
