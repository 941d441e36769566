"""`--shard i/n`: the part of the work that one of n processes does. The outputs of all shards, one after the other, are
the records of one run over everything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from sweet_rl.runs.errors import UserError
from sweet_rl.runs.manifest import read_manifest
from sweet_rl.runs.records import read_rows
from sweet_rl.runs.run import Run, open_run
from sweet_rl.runs.step import run_step

Item = TypeVar("Item")
_NUMBERS = re.compile(r"(\d{1,9})/(\d{1,9})")


def shard_of(items: Sequence[Item], shard: str | None) -> Sequence[Item]:
    """One of n contiguous parts of `items`, whose sizes differ by at most one.

    Args:
        items: All of the work.
        shard: Text i/n with i from 1 to n; None for everything.

    Raises:
        UserError: The text is not i/n.
    """
    if shard is None:
        return items
    numbers = _NUMBERS.fullmatch(shard.strip())
    number, count = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= number <= count:
        raise UserError(f"--shard is {shard!r}; it must be i/n with i from 1 to n, for example 1/4, 2/4, 3/4 and 4/4.")
    return items[len(items) * (number - 1) // count : len(items) * number // count]


def gather(shards: Sequence[str | Path], output_path: str | Path, overwrite: bool = False) -> int:
    """Join the outputs of all shards of a run, in their order.

    Args:
        shards: Outputs of the shards 1/n to n/n, in any order.
        output_path: The records of all of them.
        overwrite: Whether an output of other shards is replaced.

    Returns:
        The number of records.

    Raises:
        UserError: A shard is unfinished, missing, given twice, or has other settings than the first.
    """
    parts: dict[str, Path] = {}
    common: dict = {}
    for path in map(Path, shards):
        manifest = read_manifest(path)
        if manifest is None or manifest["status"] != "finished":
            raise UserError(f"{path} is not finished: run its shard to the end first.")
        settings = manifest["settings"] | {"inputs": sorted(manifest["inputs"].values())}
        shard = settings.pop("shard", None)
        if not isinstance(shard, str) or not _NUMBERS.fullmatch(shard):
            raise UserError(f"{path} was not made with --shard.")
        common = common or settings
        if changed := [key for key in {*common, *settings} if common.get(key) != settings.get(key)]:
            raise UserError(f"{path} has another {', '.join(sorted(changed))} than {shards[0]}: no shards of one run.")
        if shard in parts:
            raise UserError(f"{parts[shard]} and {path} are both shard {shard}.")
        parts[shard] = path
    count = next(iter(parts), "0/0").rpartition("/")[2]
    wanted = [f"{number}/{count}" for number in range(1, int(count) + 1)]
    if not parts or sorted(parts) != sorted(wanted):
        raise UserError(f"found the shards {', '.join(parts) or 'none'}; expected {', '.join(wanted) or '1/n to n/n'}.")

    def join(output: Run) -> dict:
        output.write_missing(row for shard in wanted for _, row in read_rows(parts[shard]))
        return {"records": len(output.done)}

    inputs = [parts[shard] for shard in wanted]
    return run_step(open_run(output_path, {"gathered": common}, inputs, overwrite), join)["records"]
