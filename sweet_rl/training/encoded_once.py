"""Tokenise a dataset once per node; the other ranks memory-map the result."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from accelerate import Accelerator

from sweet_rl.models.log_probs.text_store import TextStore
from sweet_rl.runs.errors import UserError
from sweet_rl.training.examples import DialogueExamples, PreferenceExamples

Encoded = TypeVar("Encoded", PreferenceExamples, DialogueExamples)


def encoded_once(encode: Callable[[], Encoded], accelerator: Accelerator) -> Encoded:
    """The examples that `encode` returns, which only the first process of each machine calls.

    The texts lie in a folder of TMPDIR until every process has mapped them; then the folder is removed.

    Raises:
        UserError: in all processes, what `encode` raised in one of them; or TMPDIR has no room.
    """
    if accelerator.num_processes == 1:
        return encode()
    folder = error = None
    if accelerator.local_process_index == 0:
        try:
            folder = _written(encode())
        except UserError as found:
            error = str(found)
    results: list = [None] * accelerator.num_processes
    torch.distributed.all_gather_object(results, (folder, error))
    try:
        for _, message in results:
            if message is not None:
                raise UserError(message)
        source = Path(results[accelerator.process_index - accelerator.local_process_index][0])
        with open(source / "examples.pickle", "rb") as file:
            examples = replace(pickle.load(file), texts=TextStore.load(source))
        torch.distributed.barrier()
        return examples
    finally:
        if folder is not None:
            shutil.rmtree(folder)


def _written(examples: PreferenceExamples | DialogueExamples) -> str:
    """A new folder with the texts as arrays, and the rest of the examples. Raises UserError if it cannot be written."""
    store = examples.texts if isinstance(examples.texts, TextStore) else TextStore.pack(examples.texts)
    folder = tempfile.mkdtemp(prefix="sweet_rl-")
    try:
        store.save(Path(folder))
        with open(Path(folder) / "examples.pickle", "wb") as file:
            pickle.dump(replace(examples, texts=()), file)
    except OSError as error:
        shutil.rmtree(folder)
        raise UserError(
            f"the encoded dataset cannot be written to {folder}: {error.strerror}. Make room there, or set TMPDIR to a "
            "folder on another disk."
        ) from error
    return folder
