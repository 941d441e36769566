"""Steps of a pipeline, planned from rules.

A step is planned when its output is asked for, after the steps that make what its command reads. So targets share what
they have in common.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sweet_rl.errors import UserError
from sweet_rl.pipeline.timed import read_times
from sweet_rl.runs.manifest import is_current

COST = ("--output_path", "--save_path", "--output_dir")  # flags of the output that names a step and its cost
OUTPUTS = (
    *COST, "--preference_path", "--ground_truth_preference_path", "--best_path", "--markdown_path", "--latex_path",
)  # fmt: skip


def values_of(words: Sequence[str], *flags: str) -> list[str]:
    """The values of these flags in a command."""
    return [value for flag, value in zip(words, words[1:], strict=False) if flag in flags]


@dataclass(frozen=True)
class Step:
    """A command.

    Attributes:
        name: what it is called in tables of times.
        kind: decides its resources, for example train or dialogues.
        words: of the command.
        outputs: every file and model that it makes.
        sources: those outputs of other steps that it reads.
        times: file that its cost is appended to.
    """

    name: str
    kind: str
    words: tuple[str, ...]
    outputs: tuple[str, ...]
    sources: tuple[str, ...]
    times: str

    @property
    def output(self) -> str:
        """The file or folder that names the step and its cost."""
        return values_of(self.words, *COST)[0]

    @property
    def log(self) -> str:
        """The file that the output of the command is appended to."""
        return str(Path(self.times).with_name("logs") / f"{Path(self.output).name}.log")

    def settings(self) -> list[str]:
        """The lines of the command's configuration that none of its flags overrides."""
        texts = [Path(file).read_text(encoding="utf-8") for file in values_of(self.words, "--config")]
        found = [pair for text in texts for pair in yaml.safe_load(text).items()]
        return [f"{key}: {value}" for key, value in found if not {f"--{key}", f"--no{key}"} & {*self.words}]

    def finished(self) -> bool:
        """Whether this very command made its outputs, from inputs with the content that they have now.

        An output without a manifest must be newer than the inputs.
        """
        rows = read_times([self.times] if Path(self.times).exists() else [])
        made = [row for row in rows if row["output"] == self.output and row["status"] == 0]
        if not made or tuple(shlex.split(made[-1]["command"])) != self.words:
            return False
        newest = max(map(_changed, self.sources), default=0.0)
        current = [(path, is_current(path)) for path in map(Path, self.outputs)]
        return all(path.is_file() and _changed(path) >= newest if now is None else now for path, now in current)


def _changed(path: str | Path) -> float:
    return Path(path).stat().st_mtime if Path(path).exists() else float("inf")


def _parts(output: str, count: int) -> int:
    """The number of parts in which an output is made: as it was begun, or `count`."""
    path = Path(output)
    if path.suffix and (found := next(path.parent.glob(f"{path.stem}.[0-9]*-of-[0-9]*{path.suffix}"), None)):
        return int(re.search(r"-of-(\d+)", found.name)[1])
    return 1 if path.exists() else count


class Plan:
    """Steps in an order in which they can run.

    A word {name} of a command is a value (words of their own), or known (one word, as it is; a flag before an empty one
    is left out). What is known: the options, and of the file that is made dir (its folder), top (the folder of its
    seed), seed, collection_seed, title (the group of the rule in brackets) and before (the folder of the round before).

    A folder with the value `share` takes what another one of its seed makes by the same command from the same files.

    Args:
        config: rules {pattern of a file: [name of the step, kind, command]}, values {name: words}, sizes {name:
            values}, folders {pattern of a folder below a seed's: values}, outputs {script: endings of its outputs}.
        options: what is known everywhere; `out` is the folder of everything.
        sizes: names of those that apply; a later one wins.
        shards: number of parts by kind of step; one more step joins them.

    Raises:
        UserError: the name of the folder cannot stand in a list of files.

    Attributes:
        steps: by the output that names them.
        makers: steps by each file and model that they make.
        same: files and models that are not made, because another folder has the same, and these.
        values: words by name.
    """

    def __init__(
        self, config: Mapping[str, Any], options: Mapping[str, Any], sizes: Sequence[str], shards: Mapping[str, int]
    ):
        self.config, self.options, self.out, self.shards = config, options, options["out"], shards
        if found := re.search("[=,+]", self.out):
            raise UserError(f"--output {self.out}: {found[0]} separates the files of tables. Choose another folder.")
        self.values: dict[str, Any] = dict(config["values"])
        for size in sizes:
            self.values |= config["sizes"][size]
        self.steps: dict[str, Step] = {}
        self.makers: dict[str, Step] = {}
        self.same: dict[str, str] = {}
        self._first: dict[tuple[str, ...], str] = {}

    def make(self, path: str) -> None:
        """Plan what makes a file or model in the folder of everything. Raises UserError if no rule does."""
        place = re.fullmatch(
            rf"(?P<top>{re.escape(self.out)}(/seed(?P<seed>\d+))?)(/(?P<folder>{'|'.join(self.config['folders'])}))?"
            r"/(?P<name>.+)",
            path,
        )
        top, name, seed = place["top"], place["name"], int(place["seed"] or 0)
        known = {**self.options, "top": top, "dir": path.removesuffix(f"/{name}"), "seed": seed}
        known["collection_seed"] = seed + 1000
        values = dict(self.values)
        for pattern, changes in self.config["folders"].items():
            if found := re.fullmatch(pattern, place["folder"] or ""):
                if found.groups():
                    earlier = found[0].replace(found[1], str(int(found[1]) - 1), 1)
                    known["before"] = top if int(found[1]) == 2 else f"{top}/{earlier}"
                for key, value in changes.items():
                    for group, text in enumerate(found.groups(), start=1):
                        value = value.replace(f"{{{group}}}", text)
                    values[key] = value
        matches = ((re.fullmatch(pattern, name), rule) for pattern, rule in self.config["rules"].items())
        found, rule = next((match for match in matches if match[0]), (None, None))
        if found is None:
            raise UserError(f"no rule of the pipeline makes {path}: check its name.")
        title, kind, command = rule
        groups = dict(enumerate(found.groups(), start=1)) or {1: ""}
        for number, group in groups.items():
            title, command = (text.replace(f"{{{number}}}", group) for text in (title, command))
        known["title"] = f" ({groups[1][1:]})" if groups[1] else ""
        title = re.sub(r"{(\w+)}", lambda word: str(values.get(word[1]) or known.get(word[1], "")), title)
        words = self._expand(command, values, known)
        settings = self.settings_of(place["folder"] or "", name.removesuffix(".jsonl"), values)
        at = words.index("--config") + 2 if "--config" in words else len(words)
        words[at:at] = [word for flag, value in settings.items() for word in (f"--{flag}", str(value))]
        self.add(title, kind, known["dir"], *self.place(kind, words), share="share" in values)

    def add(
        self, name: str, kind: str, folder: str, *words: str, after: Sequence[str] = (), share: bool = False
    ) -> str:
        """Plan a command, what makes the files that it reads, and `after`; return its output.

        With `share` the output may be that of an earlier step with `share`: see the class.
        """
        output = values_of(words, *COST)[0]
        if output in self.steps:
            return output
        made = self._outputs(output, words)
        for path in self._read(words):
            if path not in self.makers and path not in (*made, output, f"{self.out}/results", *self.same):
                self.make(path)
        words = tuple("".join(self.same.get(part, part) for part in re.split("([=,+])", word)) for word in words)
        if share:
            own = (Path(word).name if word in (output, *made) else word for word in words)
            command = (str(Path(folder).parent), *own)
            first = self._first.setdefault(command, output)
            if first != output:
                self.same |= {path: str(Path(first).with_name(Path(path).name)) for path in (output, *made)}
                return first
        count = _parts(output, self.shards.get(kind, 1))
        if count > 1 and "--shard" not in words:
            parts = []
            for shard in (f"{number}/{count}" for number in range(1, count + 1)):
                part = output.replace(".jsonl", f".{shard.replace('/', '-of-')}.jsonl")
                own = [part if word == output else word for word in words]
                parts.append(self.add(f"{name} ({shard})", kind, folder, *own, "--shard", shard))
            words = ("python", "scripts/gather_shards.py", "--shards", ",".join(parts), "--output_path", output)
            name, kind, made = f"{name}: shards joined", "other", [output]
        read = self._read(words)
        sources = tuple(dict.fromkeys(path for path in (*read, *after) if path in self.makers))
        step = Step(name, kind, tuple(words), tuple(made), sources, f"{folder}/times.jsonl")
        self.steps[output] = step
        self.makers |= dict.fromkeys([output, *made], step)
        return output

    def settings_of(self, folder: str, name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings {flag: value} that replace those of the configuration of a step; flags of its rule still win.

        Args:
            folder: below a seed's; empty for the seed's own.
            name: of the file or model that is made, without .jsonl.
            values: those that hold in the folder.
        """
        return {}

    def place(self, kind: str, words: list[str]) -> list[str]:
        """The command with flags that depend on its other words; the command itself if there are none."""
        return words

    def _outputs(self, output: str, words: Sequence[str]) -> list[str]:
        endings = next((given for script, given in self.config["outputs"].items() if script in words), None)
        return [f"{output}{ending}" for ending in endings] if endings else values_of(words, *OUTPUTS)

    def _read(self, words: Sequence[str]) -> list[str]:
        return [part for word in words for part in re.split("[=,+]", word) if part.startswith(f"{self.out}/")]

    def _expand(self, template: str, values: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
        words: list[str] = []
        for word in template.split():
            name = word[1:-1] if re.fullmatch(r"{[\w.-]+}", word) else None
            if name is None:
                part = lambda found: " ".join(self._expand(found[0], values, known))  # noqa: E731
                words.append(re.sub(r"{[\w.-]+}", part, word))
            elif name in values:
                words += self._expand(str(values[name]), values, known)
            elif known.get(name) not in (None, ""):
                words.append(str(known[name]))
            elif name in known and words and words[-1].startswith("--"):
                words.pop()
        return words
