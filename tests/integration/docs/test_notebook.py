"""The notebook of the manual runs, and shows what its text says."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import re

from tests.support.command_line import ROOT


def first_words(output: str) -> str:
    """What an output begins with, up to its first number."""
    return re.split(r"[-+\d\n]", output)[0]


def test_the_notebook_runs_and_useful_questions_have_more_credit_than_useless_ones(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    cells = json.loads((ROOT / "docs" / "one_dialogue.ipynb").read_text(encoding="utf-8"))["cells"]
    space: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                result = eval(code, space)
                if inspect.iscoroutine(result):
                    asyncio.run(result)
            (kept,) = cell["outputs"]
            assert first_words(printed.getvalue()) == first_words("".join(kept["text"]))
    words = [message["oracle"] for message in space["said"]]
    advantages = [turn["advantage"] for turn in space["turns"]]
    useful, useless = (
        [score for score, word in zip(advantages, words, strict=True) if word == wanted]
        for wanted in ("useful", "useless")
    )
    assert min(useful) > max(useless)
