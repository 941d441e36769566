"""A ledger of the settings with which each method meets the test tasks: JSONL rows {method, settings}, without dates.

It is written before the evaluation starts. If somebody chooses between two settings of a method after both met the test
tasks, the figures are not those of unseen tasks any more. The ledger does not forbid that, it shows it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sweet_rl.pipeline.plan import Step
from sweet_rl.runs.locks import lock_file

logger = logging.getLogger(__name__)


def steps_behind(step: Step, makers: Mapping[str, Step]) -> list[Step]:
    """The step and all steps that it needs, directly or not; each once."""
    found: dict[str, Step] = {}
    waiting = [step]
    while waiting:
        here = waiting.pop()
        if here.output not in found:
            found[here.output] = here
            waiting += [makers[path] for path in here.sources]
    return list(found.values())


def evaluations(steps: Iterable[Step], makers: Mapping[str, Step], out: str) -> dict[str, tuple[str, str]]:
    """(method, hash of its settings) of each evaluation among the steps, by the graded file that it makes.

    The hash is of the commands and configurations of all steps behind it. Seeds, shards, servers, and the folder of
    everything (`out`), make no difference. The method is the path of the file below its seed's folder.
    """
    texts: dict[str, str] = {}
    found = {}
    for step in steps:
        if step.output.endswith(".graded.jsonl"):
            behind = steps_behind(step, makers)
            texts |= {one.output: _described(one, out) for one in behind if one.output not in texts}
            content = "\0".join(sorted({texts[one.output] for one in behind}))
            name = re.sub(r"^.*/seed\d+/|\.graded\.jsonl$", "", step.output)
            found[step.output] = name, hashlib.sha256(content.encode()).hexdigest()[:12]
    return found


def _described(step: Step, out: str) -> str:
    words = " ".join(word.replace(f"{out}/", "") for word in step.words)
    plain = re.sub(r"seed\d+/|--(seed|shard|\w*hostname) \S+ ?", "", words)
    return "\n".join([plain.strip(), *step.settings()])


def read_ledger(path: str | Path) -> dict[str, list[str]]:
    """The hashes of each method's settings, in the order in which they met the test tasks; empty without a file."""
    rows = Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []
    found: dict[str, list[str]] = {}
    for row in map(json.loads, rows):
        found.setdefault(row["method"], []).append(row["settings"])
    return found


def note(path: str | Path, tested: Iterable[tuple[str, str]]) -> list[str]:
    """Append (method, hash) pairs that the ledger does not have yet.

    Returns:
        The methods among them that met the test tasks with other settings before; a warning names them.
    """
    tested = list(dict.fromkeys(tested))
    if not tested:
        return []
    lock = lock_file(path)
    known = read_ledger(path)
    new = [(method, settings) for method, settings in tested if settings not in known.get(method, ())]
    lines = [json.dumps({"method": method, "settings": settings}) + "\n" for method, settings in new]
    os.write(lock, "".join(lines).encode())
    os.close(lock)
    others = [method for method, settings in tested if set(known.get(method, ())) - {settings}]
    if others:
        logger.warning(
            "The test tasks met other settings of %s before (%s). Do not choose between settings by these results.",
            ", ".join(others), path,
        )  # fmt: skip
    return others
