"""The steps of every experiment, planned by experiments.yaml: a step is planned when its output is asked for, after the
steps that make what its command reads. So the tables and figures share what they have in common.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from sweet_rl.runs.manifest import is_current

COST = ("--output_path", "--save_path", "--output_dir")  # flags of the output that a step's cost is noted for
OUTPUTS = (*COST, "--preference_path", "--ground_truth_preference_path", "--best_path", "--markdown_path", "--latex_path")
HOSTED = {"gpt-4o": "GPT-4o", "o1-mini": "o1-mini"}  # models behind the hosted API, by their names in tables


def values_of(words: Sequence[str], *flags: str) -> list[str]:
    """The values of these flags in a command."""
    return [value for flag, value in zip(words, words[1:], strict=False) if flag in flags]


@dataclass(frozen=True)
class Step:
    """A command. `kind` (train, dialogues, candidates, ranking, grading, other) decides its resources."""

    name: str
    kind: str
    words: tuple[str, ...]
    sources: tuple[str, ...]
    times: str

    @property
    def output(self) -> str:
        """The file or folder that names the step and its cost."""
        return values_of(self.words, *COST)[0]

    @property
    def outputs(self) -> list[str]:
        """Every file and model that the command makes."""
        if self.words[1] == "scripts/make_mini_tasks.py":
            return [f"{self.output}/train.jsonl", f"{self.output}/test.jsonl"]
        if self.words[1] == "scripts/write_results_page.py":
            return [f"{self.output}/README.md"]
        if self.words[1] == "visualizers/plot_results.py":
            return [f"{self.output}.png", f"{self.output}.svg"]
        return values_of(self.words, *OUTPUTS)

    @property
    def log(self) -> str:
        return str(Path(self.times).with_name("logs") / f"{Path(self.output).name}.log")

    def settings(self) -> list[str]:
        """The lines of the command's configuration that none of its flags overrides."""
        texts = [Path(file).read_text(encoding="utf-8") for file in values_of(self.words, "--config")]
        found = [pair for text in texts for pair in yaml.safe_load(text).items()]
        return [f"{key}: {value}" for key, value in found if not {f"--{key}", f"--no{key}"} & {*self.words}]

    def finished(self) -> bool:
        """Whether this very command made its outputs, from inputs with the content that they have now."""
        rows = Path(self.times).read_text(encoding="utf-8").splitlines() if Path(self.times).exists() else []
        made = [row for row in map(json.loads, rows) if row["output"] == self.output and row["status"] == 0]
        if not made or tuple(shlex.split(made[-1]["command"])) != self.words:
            return False
        newest = max((_changed(source) for source in self.sources), default=0.0)
        whole = [(path, is_current(path)) for path in map(Path, self.outputs)]
        return all(_changed(path) >= newest and path.is_file() if now is None else now for path, now in whole)


def _changed(path: str | Path) -> float:
    return Path(path).stat().st_mtime if Path(path).exists() else float("inf")


class Plan:
    """Steps in an order in which they can run.

    Args:
        options: of the command line, by name, with `out`, the folder of everything.
        sizes: which of the `sizes` in experiments.yaml apply; a later one wins.
        shards: number of parts by kind of step; one more step joins them.
    """

    def __init__(self, options: dict, sizes: Sequence[str], shards: dict[str, int]):
        self.config = yaml.safe_load(Path(__file__).with_name("experiments.yaml").read_text(encoding="utf-8"))
        self.options, self.out, self.shards = options, options["out"], shards
        self.values = self.config["values"].copy()
        for size in sizes:
            self.values |= self.config["sizes"][size]
        self.values["shared_dialogues"] = "{trajectories}" if options.get("trajectories") else "{top}/trajectories.jsonl"
        servers = {"env_model": "hostname", "agent_model": "agent_hostname"}
        self.servers = {options[model]: options[host] for model, host in servers.items() if options[host]}
        self.steps: dict[str, Step] = {}  # by output
        self.makers: dict[str, Step] = {}  # by each file and model

    def make(self, path: str) -> None:
        """Plan what makes a file or model in the folder of everything. Raises KeyError if no rule does."""
        folders = "|".join(self.config["folders"])
        place = re.fullmatch(rf"(?P<top>{re.escape(self.out)}(/seed(?P<seed>\d+))?)(/(?P<sub>{folders}))?/(?P<name>.+)", path)
        top, name, seed = place["top"], place["name"], int(place["seed"] or 0)
        known = self.options | {"top": top, "dir": path.removesuffix(f"/{name}"), "seed": seed, "collection_seed": seed + 1000}
        values = self.values.copy()
        for pattern, changes in self.config["folders"].items():
            if found := re.fullmatch(pattern, place["sub"] or ""):
                number = int(found[1]) if found.groups() else 0
                known["before"] = top if number == 2 else f"{top}/round{number - 1}"
                values |= {key: value.replace("{1}", str(number)) for key, value in changes.items()}
        for pattern, (title, kind, command) in self.config["rules"].items():
            if found := re.fullmatch(pattern, name):
                break
        else:
            raise KeyError(path)
        groups = {"1": "", **{str(number): group for number, group in enumerate(found.groups(), start=1)}}
        for number, group in groups.items():
            title, command = (text.replace(f"{{{number}}}", group) for text in (title, command))
        known["title"] = f" ({groups['1'][1:]})" if groups["1"] else ""
        title = re.sub(r"{(\w+)}", lambda word: values.get(word[1]) or known.get(word[1], ""), title)
        self.add(title, kind, known["dir"], *self._where(kind, self._expand(command, values, known)))

    def add(self, name: str, kind: str, folder: str, *words: str, after: Sequence[str] = ()) -> str:
        """Plan a command and what makes the files that it reads, and `after`; return its output."""
        output, count = values_of(words, *COST)[0], self.shards.get(kind, 1)
        if output in self.steps:
            return output
        if count > 1 and "--shard" not in words:
            parts = []
            for shard in (f"{number}/{count}" for number in range(1, count + 1)):
                part = output.replace(".jsonl", f".{shard.replace('/', '-of-')}.jsonl")
                own = [part if word == output else word for word in words]
                parts.append(self.add(f"{name} ({shard})", kind, folder, *own, "--shard", shard))
            words = ("python", "scripts/gather_shards.py", "--shards", ",".join(parts), "--output_path", output)
            name, kind = f"{name}: shards joined", "other"
        made = Step(name, kind, tuple(words), (), f"{folder}/times.jsonl").outputs
        read = [part for word in words for part in (word, *re.split("[=,+]", word)) if part.startswith(f"{self.out}/")]
        for path in read:
            if path not in self.makers and path not in (*made, output, f"{self.out}/results"):
                self.make(path)
        sources = tuple(dict.fromkeys(path for path in (*read, *after) if path in self.makers))
        step = self.steps[output] = Step(name, kind, tuple(words), sources, f"{folder}/times.jsonl")
        self.makers |= dict.fromkeys([output, *made], step)
        return output

    def _expand(self, template: str, values: dict, known: dict) -> list[str]:
        """The words of a command. Values are templates of their own; what is known stands as it is, or not at all."""
        words: list[str] = []
        for word in template.split():
            name = word[1:-1] if re.fullmatch(r"{[\w.-]+}", word) else None
            if name is None:
                fill = lambda found: " ".join(self._expand(found[0], values, known))  # noqa: E731
                words.append(re.sub(r"{[\w.-]+}", fill, word))
            elif name in values:
                words += self._expand(str(values[name]), values, known)
            elif known.get(name) not in (None, ""):
                words.append(str(known[name]))
            elif name in known and words and words[-1].startswith("--"):
                words.pop()
        return words

    def _where(self, kind: str, words: list[str]) -> list[str]:
        """The command with the place where its agent is played: the hosted API, a server, or the process."""
        flag, prefix = {"dialogues": ("--agent_model", "--agent_"), "candidates": ("--model_id", "--")}.get(kind, ("", ""))
        engine = (self.options["paper"] and self.options["engine"]) or ("auto" if kind == "candidates" else "")
        for model in values_of(words, flag):
            if model in HOSTED:
                words = [*words, f"{prefix}engine", "openai"]
            elif model in self.servers:
                words = [*words, f"{prefix}hostname", self.servers[model]]
            elif engine:
                words = [*words, f"{prefix}engine", engine]
        return words
