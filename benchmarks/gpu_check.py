"""Whether training and ranking are right and fast on this machine's GPU, in twelve minutes and without a download.

    python benchmarks/gpu_check.py                       # one H100 or H200; writes results/gpu/NAME_OF_THE_GPU.md
    python benchmarks/gpu_check.py --cpu --output_dir /tmp/check      # the same checks with tiny shapes
    python benchmarks/gpu_check.py --only ranking

Models have the shapes of Llama 3 and random weights. A failed check is reported on the page and the others go on; the
exit status is then 1. After an error of CUDA all later checks fail too: run them with --only. TRL beside this package:
benchmarks/dpo.py; every command of the recipe of one GPU: benchmarks/gpu_recipe.sh.
"""

from __future__ import annotations

import datetime
import gc
import importlib.util
import json
import math
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
from dpo import spread, turn_pairs
from random_model import config_of, save_random_model

from sweet_rl.models.log_probs.attention import share_prompts
from sweet_rl.models.log_probs.logps import ROW_TOKENS, completion_logps, on_device, score_texts
from sweet_rl.models.log_probs.rows import EncodedText, lay_out
from sweet_rl.models.weights import freeze
from sweet_rl.runs.cli import run
from sweet_rl.runs.errors import UserError
from sweet_rl.training.checkpoints import Checkpoints
from sweet_rl.training.dpo import preference_objective, train_preferences
from sweet_rl.training.examples import Examples
from sweet_rl.training.log import Log
from sweet_rl.training.loop import train
from sweet_rl.training.lora import with_adapter
from sweet_rl.training.run import make_engine
from sweet_rl.training.settings import DataSettings, PreferenceSettings, TrainingSettings

TRAIN = Path(__file__).resolve().parents[1] / "scripts" / "train_dpo.py"
LORA_RANK = 16
LN2 = math.log(2)
BYTES = 20  # of memory per weight that is trained: itself, its gradient, AdamW, activations


@dataclass(frozen=True)
class Line:
    """One figure: what was measured, what was found, what was wanted, and whether it is right (None: no wish)."""

    name: str
    found: str
    wanted: str = ""
    right: bool | None = None


@dataclass(frozen=True)
class Scale:
    """The sizes of a run of the checks.

    Attributes:
        device: cuda or cpu.
        small: shape for exactness (float32) and first losses.
        trained: shapes that are trained, timed and counted.
        ranked: shape that ranks.
        prompt, tokens: lengths of a prompt and of a completion.
        turns: turns of eight completions in a training step, and in the ranking.
        steps: timed training steps, and repeats of timed work.
        processes: of the checks under torchrun.
    """

    device: str = "cuda"
    small: str = "25m"
    trained: tuple[str, ...] = ("1b", "8b")
    ranked: str = "8b"
    prompt: int = 1000
    tokens: int = 60
    turns: int = 8
    steps: int = 5
    processes: int = 1


def first_loss_line(scale: Scale, name: str, loss: float, bf16: bool) -> Line:
    """The first loss of a training whose reference is the untrained policy: ln 2.

    On a GPU the rounding of bfloat16 depends on a text's place in its row, and reference and training have other rows.
    """
    limit = 1e-2 if bf16 and scale.device == "cuda" else 1e-4
    return Line(name, f"{loss:.6f}", f"ln 2 = {LN2:.6f} within {limit:.0e}", abs(loss - LN2) < limit)


CPU = Scale("cpu", "tiny", ("tiny",), "tiny", prompt=40, tokens=6, turns=2, steps=2)


def random_turns(scale: Scale, turns: int, vocabulary: int, completions: int = 8, seed: int = 0) -> list[EncodedText]:
    """`completions` random texts for each of `turns` prompts; lengths vary a little."""
    draw, texts = np.random.default_rng(seed), []
    for _ in range(turns):
        prompt = draw.integers(3, vocabulary, scale.prompt - draw.integers(0, scale.prompt // 8))
        for _ in range(completions):
            own = draw.integers(3, vocabulary, scale.tokens - draw.integers(0, scale.tokens // 4 + 1))
            train = [False] * len(prompt) + [True] * len(own)
            texts.append(EncodedText.build(np.concatenate([prompt, own]), train, "a random turn"))
    return texts


def random_llama(shape: str, dtype: torch.dtype, device: str) -> torch.nn.Module:
    """A Llama of a named shape with random weights, on the device."""
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.LlamaForCausalLM._from_config(config_of(shape), dtype=dtype)


def shared_rows(scale: Scale) -> list[Line]:
    """Log-probs and gradients of a whole model, prompts shared, against one row per text."""
    texts = random_turns(scale, 2, config_of(scale.small).vocab_size)
    found = []
    for share in (True, False):
        model = random_llama(scale.small, torch.float32, scale.device)
        if share:
            share_prompts(model)
        batch = on_device(lay_out(texts, share, ROW_TOKENS), scale.device)
        logps = completion_logps(model, batch)
        logps.mean().backward()
        norm = torch.cat([p.grad.flatten() for p in model.parameters()])
        found.append((logps.detach(), norm, int((batch["blocks"] >= 0).sum())))
    (ours, gradient, few), (plain, wanted, many) = found
    gap = float((ours - plain).abs().max())
    gradients = float((gradient - wanted).norm() / wanted.norm())
    limit = 1e-4 if scale.device == "cpu" else 5e-2
    return [
        Line("tokens computed, shared and plain", f"{few} and {many}", "", few < many),
        Line("largest difference between log-probs", f"{gap:.1e}", f"below {limit:.0e}", gap < limit),
        Line("relative difference of the gradients", f"{gradients:.1e}", f"below {limit:.0e}", gradients < limit),
    ]


MODES = {
    "float32": {},
    "bf16": {"bf16": True},
    "bf16, gradient checkpointing": {"bf16": True, "gradient_checkpointing": True},
    "one pair at a time": {"micro_train_batch_size": 1},
    "LoRA": {"lora_rank": LORA_RANK},
    "bf16, LoRA": {"bf16": True, "lora_rank": LORA_RANK},
}
DIVIDED_MODES = {
    "not divided": {},
    "ZeRO-2, bf16": {"zero_stage": 2, "bf16": True},
    "ZeRO-3, bf16, gradient checkpointing": {"zero_stage": 3, "bf16": True, "gradient_checkpointing": True},
    "ZeRO-3, bf16, LoRA": {"zero_stage": 3, "bf16": True, "lora_rank": LORA_RANK},
}


def write_pairs(scale: Scale, folder: Path) -> tuple[str, str]:
    """A random model with a tokenizer and pairs of two turns, on disk; their paths."""
    draw, vocabulary = random.Random(0), config_of(scale.small).vocab_size
    rows = [row for _ in range(2) for row in turn_pairs(draw, scale.prompt, scale.tokens, vocabulary)]
    named = {"chosen": "chosen_parts", "rejected": "rejected_parts"}
    lines = [json.dumps({name: row[key] for name, key in named.items()} | {"id": str(i)}) for i, row in enumerate(rows)]
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    save_random_model(str(folder / "model"), scale.small, torch.float32, scale.device)
    return str(folder / "model"), str(folder / "pairs.jsonl")


def logged_loss(folder: Path) -> float:
    """The first loss in a training's log."""
    lines = (folder / "training_log.jsonl").read_text().splitlines()
    return next(row["loss"] for row in map(json.loads, lines) if "loss" in row)


def first_loss(scale: Scale) -> list[Line]:
    """The first loss of a DPO training whose reference is the untrained policy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, pairs = write_pairs(scale, folder)
        lines = []
        for number, (mode, changes) in enumerate(MODES.items()):
            settings = TrainingSettings(learning_rate=1e-6, train_batch_size=8, logging_steps=1, **changes)
            path = folder / str(number)
            train_preferences(model, pairs, str(path), PreferenceSettings(), settings, DataSettings())
            lines.append(first_loss_line(scale, mode, logged_loss(path), settings.bf16))
        return lines


def parallel(scale: Scale) -> list[Line]:
    """The first loss by torchrun, one process per GPU: not divided, and divided by DeepSpeed."""
    deepspeed = importlib.util.find_spec("deepspeed") is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, pairs = write_pairs(scale, folder)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node"]
        launcher.append(str(scale.processes))
        lines = []
        for number, (mode, changes) in enumerate(DIVIDED_MODES.items()):
            if "zero_stage" in changes and not deepspeed:
                lines.append(Line(mode, "DeepSpeed is not installed"))
                continue
            flags = {"pretrain": model, "dataset": pairs, "save_path": folder / str(number), "learning_rate": 1e-6}
            flags |= {"logging_steps": 1, **changes}
            words = [f"--{key}={value}" for key, value in flags.items()]
            done = subprocess.run([*launcher, str(TRAIN), *words], capture_output=True, text=True)
            if done.returncode:
                lines.append(Line(mode, done.stderr.strip()[-500:], "trains", False))
            else:
                loss = logged_loss(folder / str(number))
                lines.append(first_loss_line(scale, mode, loss, changes.get("bf16", False)))
        return lines


def train_shape(scale: Scale, shape: str, lora: bool) -> list[Line]:
    """Training steps of one shape in bfloat16: speed and memory."""
    config = config_of(shape)
    texts = random_turns(scale, scale.turns * (scale.steps + 1), config.vocab_size)
    name = f"{shape}, {'LoRA' if lora else 'all weights'}"
    capacity = torch.cuda.get_device_properties(0).total_memory if scale.device == "cuda" else math.inf
    model = random_llama(shape, torch.bfloat16, scale.device)
    too_large = not lora and BYTES * model.num_parameters() > capacity
    if too_large:  # for its speed: weights and optimiser in bfloat16, half as much
        name += " in bfloat16"
    settings = TrainingSettings(
        learning_rate=1e-6, train_batch_size=4 * scale.turns, max_pairs_per_prompt=4, logging_steps=1,
        bf16=not too_large, gradient_checkpointing=True, lora_rank=LORA_RANK if lora else None,
        min_learning_rate_ratio=1.0,
        warmup_ratio=0.0, save_minutes=None,  # a checkpoint has up to 16 bytes per parameter
    )  # fmt: skip
    if not too_large and not lora:
        model = model.float()
    pairs = np.arange(len(texts)).reshape(-1, 2)
    examples = Examples(texts, pairs)
    share = share_prompts(model)
    with torch.autocast(scale.device, torch.bfloat16, enabled=settings.bf16):
        reference = score_texts(model.eval(), texts, 16384, share)
    model.train()
    model = with_adapter(model, LORA_RANK, autocast=settings.autocast) if lora else model
    lines: list[Line] = []
    engine = make_engine(settings)
    log = Log(engine.accelerator, [], "")
    objective = preference_objective(examples, reference, PreferenceSettings(), share)
    train(model, objective, examples, engine, log, Checkpoints(Path(), settings, engine), together=4)
    lines.append(first_loss_line(scale, f"{name}: first loss", log.history[0]["loss"], bf16=True))
    speeds = [row["tokens_per_second"] for row in log.history[1:]]
    lines.append(Line(f"{name}: tokens per second", spread(speeds, 0)))
    if scale.device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 1e9
        lines.append(Line(f"{name}: peak memory", f"{peak:.1f} GB"))
    return lines


@torch.inference_mode()
def whole_texts(model: torch.nn.Module, texts: list[EncodedText], together: int) -> list[np.ndarray]:
    """Log-probs of each text's trained tokens, every text whole; all texts have the same lengths."""
    found = []
    for start in range(0, len(texts), together):
        part = texts[start : start + together]
        ids = torch.from_numpy(np.stack([text.ids for text in part])).long().to(model.device)
        kept = len(part[0].targets) + 1
        logps = model(input_ids=ids, use_cache=False, logits_to_keep=kept).logits.float().log_softmax(-1)
        found += list(logps[:, :-1].gather(-1, ids[:, -kept + 1 :, None])[..., 0].cpu().numpy())
    return found


def timed(works: dict[str, Callable[[], list[np.ndarray]]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each work, all in turn, so that other load of the machine meets all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            began = time.perf_counter()
            work()  # its results are on the CPU, so that the GPU has ended
            seconds[name].append(time.perf_counter() - began)
    return seconds


def ranking(scale: Scale) -> list[Line]:
    """Candidates per second, prompts shared, against one whole sequence per candidate."""
    dtype = torch.bfloat16 if scale.device == "cuda" else torch.float32
    ways = ("shared", "whole")
    models = {way: freeze(random_llama(scale.ranked, dtype, scale.device), scale.device) for way in ways}
    draw, vocabulary = np.random.default_rng(0), config_of(scale.ranked).vocab_size
    prompt = draw.integers(3, vocabulary, scale.prompt)
    train = [False] * scale.prompt + [True] * scale.tokens
    texts = [
        EncodedText.build(np.concatenate([prompt, draw.integers(3, vocabulary, scale.tokens)]), train, "a candidate")
        for _ in range(16)
    ]
    works = {
        "shared": lambda: score_texts(models["shared"], texts, 16384),
        "whole": lambda: whole_texts(models["whole"], texts, 16),
    }
    found, plain = (work() for work in works.values())
    seconds = timed(works, scale.steps)
    models.clear()  # the same weights in float32 take twice the memory
    exact = whole_texts(freeze(random_llama(scale.ranked, dtype, scale.device).float(), scale.device), texts, 4)
    ours, theirs = (max(float(np.abs(a - b).mean()) for a, b in zip(x, exact, strict=True)) for x in (found, plain))
    ratios = [whole / shared for whole, shared in zip(seconds["whole"], seconds["shared"], strict=True)]
    wanted = f"at most 1.5 times the plain way's {theirs:.1e}"
    return [
        Line(f"{scale.ranked}: candidates per second", spread([16 / one for one in seconds["shared"]], 1)),
        Line("times one sequence per candidate", spread(ratios)),
        Line("log-probs: distance from float32", f"{ours:.1e}", wanted, ours <= max(1.5 * theirs, 1e-5)),
    ]


Check = Callable[[Scale], list[Line]]


@dataclass(frozen=True)
class Outcome:
    """What came of a check: its lines and seconds, or the error that ended it."""

    name: str
    title: str
    lines: list[Line]
    seconds: float
    error: str = ""

    @property
    def right(self) -> bool:
        """Whether it ran and nothing in it was wrong."""
        return not self.error and all(line.right is not False for line in self.lines)


def checks_of(scale: Scale) -> dict[str, Check]:
    """The checks by name, in their order."""
    checks: dict[str, Check] = {"shared_rows": shared_rows, "first_loss": first_loss}
    if scale.device == "cuda" or scale.processes > 1:
        checks["parallel"] = parallel
    for shape in scale.trained:
        for lora in (False, True):
            checks[f"train_{shape}_{'lora' if lora else 'full'}"] = partial(train_shape, shape=shape, lora=lora)
    return checks | {"ranking": ranking}


def title_of(check: Check) -> str:
    """The first line of the check's docstring."""
    function = check.func if isinstance(check, partial) else check
    return (function.__doc__ or "").strip().splitlines()[0]


def attempt(name: str, check: Check, scale: Scale) -> Outcome:
    """What came of a check, with the end of the traceback if it failed."""
    began, lines, error = time.perf_counter(), [], ""
    try:
        lines = check(scale)
    except (Exception, SystemExit):
        error = traceback.format_exc()[-1500:]
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return Outcome(name, title_of(check), lines, time.perf_counter() - began, error)


def page(outcomes: list[Outcome], device: str, command: str) -> str:
    """The page of figures, markdown."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
    lines = [
        f"# {device}", "", f"`{command}`, {datetime.date.today()}; {versions}.", "",
        "| check | seconds | |", "|---|---|---|",
    ]  # fmt: skip
    lines += [f"| {one.name} | {one.seconds:.1f} | {'ok' if one.right else 'FAILED'} |" for one in outcomes]
    for one in outcomes:
        lines += ["", f"## {one.name}", "", one.title, ""]
        if one.error:
            lines += ["```", one.error.strip(), "```"]
        if one.lines:
            lines += ["| | found | wanted | |", "|---|---|---|---|"]
            marks = {True: "ok", False: "WRONG", None: ""}
            rows = [(x.name, x.found, x.wanted, marks[x.right]) for x in one.lines]
            lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def main(
    cpu: bool = False,
    output_dir: str = "results/gpu",
    only: list[str] | None = None,
    processes: int | None = None,
) -> None:
    """Run the checks and write the page.

    Args:
        cpu: tiny shapes on the CPU
        output_dir: folder of the page, NAME_OF_THE_DEVICE.md
        only: names of the checks to run; default: all
        processes: processes of the checks under torchrun; default: one per GPU, and with --cpu none of these checks
    """
    if not cpu and not torch.cuda.is_available():
        raise UserError("torch finds no GPU. Give --cpu for the same checks with tiny shapes, or check the driver.")
    device = platform.processor() or platform.machine() if cpu else torch.cuda.get_device_name(0)
    processes = processes or (1 if cpu else torch.cuda.device_count())
    scale = replace(CPU if cpu else Scale(), processes=processes)
    checks = checks_of(scale)
    if unknown := set(only or ()) - checks.keys():
        raise UserError(f"--only names {', '.join(sorted(unknown))}; there are {', '.join(checks)}.")
    path = Path(output_dir) / ("cpu.md" if cpu else re.sub(r"\W+", "_", device.lower()) + ".md")
    path.parent.mkdir(parents=True, exist_ok=True)
    command = " ".join(["python benchmarks/gpu_check.py", *sys.argv[1:]])
    outcomes: list[Outcome] = []
    for name, check in checks.items():
        if only and name not in only:
            continue
        outcomes.append(attempt(name, check, scale))
        print(f"{name}: {'ok' if outcomes[-1].right else 'FAILED'} ({outcomes[-1].seconds:.1f} s)", flush=True)
        path.write_text(page(outcomes, device, command), encoding="utf-8")  # after each check: a stopped run keeps them
    print(path)
    if not all(one.right for one in outcomes):
        sys.exit(1)


if __name__ == "__main__":
    run(main)
