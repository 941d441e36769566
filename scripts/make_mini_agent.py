"""Make an agent of the mini tasks by imitation: a tiny one from nothing, or from a pretrained chat model.

    python scripts/make_mini_agent.py --save_path runs/mini_agent
    python scripts/make_mini_agent.py --save_path runs/smollm2 --pretrain HuggingFaceTB/SmolLM2-135M-Instruct \
        --lr 2e-4 --batch_size 8 --num_steps 600
    python scripts/make_mini_agent.py --save_path runs/mini_hard_agent --world hard --layers 4
    python scripts/make_mini_agent.py --save_path runs/mini_page_agent --task_type html --num_steps 1000

Takes about an hour on one core, half of it with --bf16 on a core that is fast in bfloat16. Killed, the same command
continues from its last checkpoint.
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from tqdm import tqdm

from sweet_rl.chat import ChatFormat
from sweet_rl.cli import run
from sweet_rl.errors import UserError
from sweet_rl.log_probs.load import load_weights
from sweet_rl.mini import pretraining
from sweet_rl.mini.imitation import HABITS
from sweet_rl.mini.worlds import check_world
from sweet_rl.names import model_path
from sweet_rl.progress import progress_bar
from sweet_rl.runs.run import directory_manifest


@dataclass(kw_only=True)
class ImitationSettings:
    """What is imitated, and how.

    Args:
        task_type: what it is taught: to ask and write functions (code), or to draw pages and revise them (html).
        world: of the functions (code), as of make_mini_tasks.py.
        num_steps: batches; the learning rate falls over the last quarter of them.
        batch_size: dialogues a batch.
        habits: of the imitated agent (code): bad or better (asks on purpose more often).
        informed_share: share of the dialogues before which the solution stands, as before a critic's; the imitated
            agent uses it. Default: 0.4, for html 0.35.
        pretrain: a model to start from, instead of random weights; its tokenizer and shape are kept. It is a tiny
            agent, or a chat model of the Llama family, which learns its own turns only, with AdamW.
        bf16: matrix products in bfloat16: twice as fast on CPUs with AMX, five times slower on CPUs without bfloat16.
        seed: of weights and dialogues.
        lr: learning rate at its peak.
        layers: layers of the transformer.
        width: width of its hidden state.
    """

    task_type: Literal["code", "html"] = "code"
    world: Literal["quick", "hard"] = "quick"
    num_steps: int = 3000
    batch_size: int = 32
    lr: float = 3e-3
    layers: int = 3
    width: int = 128
    habits: Literal["bad", "better"] = "bad"
    informed_share: float | None = None
    pretrain: str | None = None
    bf16: bool = False
    seed: int = 0

    def __post_init__(self):
        if self.habits == "better" and self.task_type != "code":
            raise UserError("--habits better is for --task_type code: page agents have one kind of habits.")
        if self.informed_share is not None and not 0 <= self.informed_share <= 1:
            raise UserError(f"--informed_share is {self.informed_share}; it must be from 0 to 1.")
        check_world(self.world, self.task_type)


def main(
    imitation: ImitationSettings,
    save_path: str,
    checkpoint_every: int = 250,
    overwrite: bool = False,
) -> None:
    """Train the tiny agent.

    Args:
        save_path: folder of the model; `--agent_model save_path` plays it.
        checkpoint_every: steps between checkpoints, each with the loss on held-out dialogues and the share of
            numbers in answers that the model would copy wrongly.
        overwrite: replace an existing model.
    """
    inputs = [imitation.pretrain] if imitation.pretrain else []
    with directory_manifest(save_path, asdict(imitation), inputs, overwrite) as output:
        if output.complete:
            print(f"{save_path}: already complete")
            return
        output.finish(imitate(imitation, Path(save_path), checkpoint_every))


def imitate(settings: ImitationSettings, folder: Path, checkpoint_every: int) -> dict:
    """Train from the last checkpoint or from nothing; returns the last figures on held-out dialogues."""
    torch.manual_seed(settings.seed)
    folder.mkdir(parents=True, exist_ok=True)
    summary: dict = {}
    lessons = pretraining.LESSONS["hard" if settings.world == "hard" else settings.task_type]
    if settings.pretrain:
        chat = ChatFormat.from_pretrained(settings.pretrain)
        model = load_weights(model_path(settings.pretrain))
        tokenizer = chat.tokenizer
    else:
        tokenizer = pretraining.make_tokenizer(lessons)  # the same whatever the habits
        model = pretraining.make_model(len(tokenizer), width=settings.width, layers=settings.layers)
    tiny = pretraining.ASSISTANT in tokenizer.get_vocab()
    if settings.habits == "better":
        lessons = replace(lessons, stream=partial(lessons.stream, own=HABITS[settings.world][settings.habits]))
    if settings.informed_share is not None:
        lessons = replace(lessons, stream=partial(lessons.stream, informed_share=settings.informed_share))
    encoder = pretraining.DialogueEncoder(tokenizer) if tiny else pretraining.ChatEncoder(chat)
    optimizers = pretraining.make_optimizers(model, settings.lr, tiny)
    state_path = folder / "training_state.pt"
    start = 0
    if state_path.exists():
        state = torch.load(state_path, weights_only=True)
        start = state["step"]
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
    stream = pretraining.batches(encoder, lessons, settings.batch_size, seed=settings.seed + start)
    held_out = next(pretraining.batches(encoder, lessons, 4 * settings.batch_size, seed=-2))
    num_steps = settings.num_steps
    for step in progress_bar(range(start, num_steps), initial=start, total=num_steps, desc="imitation"):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = settings.lr * min(1.0, (step + 1) / min(100, num_steps / 10), 4 * (1 - step / num_steps))
        ids, weights = next(stream)
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.bf16):
            loss = pretraining.weighted_loss(model, ids, weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if (step + 1) % checkpoint_every == 0 or step + 1 == num_steps:
            with torch.inference_mode():
                held_out_loss = float(pretraining.weighted_loss(model, *held_out))
            summary = {"step": step + 1, "held_out_loss": held_out_loss}
            if lessons.numbers and tiny:
                summary["numbers_wrong"] = pretraining.number_error(model, *held_out)
            tqdm.write(", ".join(f"{name} {value:.4g}" for name, value in summary.items()))
            optimizer_states = [optimizer.state_dict() for optimizer in optimizers]
            state = {"step": step + 1, "model": model.state_dict(), "optimizers": optimizer_states}
            torch.save(state, state_path.with_suffix(".new"))
            state_path.with_suffix(".new").replace(state_path)
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    state_path.unlink(missing_ok=True)
    summary["parameters"] = sum(p.numel() for p in model.parameters())
    print(f"saved to {folder}: {summary['parameters']:,} parameters")
    return summary


if __name__ == "__main__":
    run(main)
