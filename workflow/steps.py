"""The steps of every experiment: which command makes which file. They are planned here, and run by launchers.py.

A step is planned when its output is first asked for, after the steps that make its inputs; so the tables and figures
share what they have in common. Numbers, order and settings of the steps are those of scripts/run_backend.sh.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from sweet_rl.errors import UserError
from sweet_rl.runs.manifest import DIRECTORY_MANIFEST, hash_input, manifest_of

COST = ("--output_path", "--save_path", "--output_dir")  # flags of the output that the cost of a step is noted for
OUTPUTS = (*COST, "--preference_path", "--ground_truth_preference_path", "--best_path", "--markdown_path", "--latex_path")
HOSTED = {"gpt-4o": "GPT-4o", "o1-mini": "o1-mini"}  # behind the hosted API, by their names in tables


@dataclass(frozen=True)
class Step:
    """A command. `kind` (train, dialogues, candidates, ranking, grading, other) decides its resources."""

    name: str
    kind: str
    words: tuple[str, ...]
    outputs: tuple[str, ...]
    sources: tuple[str, ...]
    times: str

    @property
    def output(self) -> str:
        """What names the step and its cost: a file, or a folder."""
        return next((b for a, b in zip(self.words, self.words[1:], strict=False) if a in COST), "")

    @property
    def log(self) -> str:
        return str(Path(self.times).with_name("logs") / f"{Path(self.output).name}.log")

    def settings(self) -> list[str]:
        """The lines of the command's configuration that none of its flags overrides."""
        files = [b for a, b in zip(self.words, self.words[1:], strict=False) if a == "--config"]
        found = [pair for file in files for pair in yaml.safe_load(Path(file).read_text(encoding="utf-8")).items()]
        return [f"{key}: {value}" for key, value in found if not {f"--{key}", f"--no{key}"} & {*self.words}]

    def finished(self) -> bool:
        """Whether this very command made its outputs, of inputs with the content that they have now."""
        rows = Path(self.times).read_text(encoding="utf-8").splitlines() if Path(self.times).is_file() else []
        made = [row for row in map(json.loads, rows) if row["output"] == self.output and row["status"] == 0]
        if not made or tuple(shlex.split(made[-1]["command"])) != self.words:
            return False
        return all(map(self._is_whole, map(Path, self.outputs)))

    def _is_whole(self, path: Path) -> bool:
        manifest = path / DIRECTORY_MANIFEST if path.is_dir() else manifest_of(path)
        if not manifest.is_file():  # a table or a figure
            return path.is_file() and all(_changed(source) <= path.stat().st_mtime for source in self.sources)
        found = json.loads(manifest.read_text(encoding="utf-8"))
        try:
            return found["status"] == "finished" and all(hash_input(p) == old for p, old in found["inputs"].items())
        except UserError:  # an input is not there
            return False


def _changed(path: str) -> float:
    return Path(path).stat().st_mtime if Path(path).exists() else float("inf")


class Plan:
    """Steps by what they make, in an order in which they can run.

    Args:
        out: folder of everything.
        shards: number of parts by kind of step; the parts are joined by one more step.
    """

    def __init__(self, out: str, shards: dict[str, int]):
        self.out, self.shards = out, shards
        self.steps: dict[str, Step] = {}
        self._makers: dict[str, Step] = {}

    def add(self, name: str, kind: str, folder: str, *words: object, also: tuple[str, ...] = ()) -> str:
        """Plan a command, if it is not planned yet, and return its output. `also`: outputs that no flag names."""
        words = tuple(map(str, words))
        count = self.shards.get(kind, 1)
        if count > 1 and "--shard" not in words:
            place = words.index("--output_path") + 1
            parts = []
            for shard in (f"{number}/{count}" for number in range(1, count + 1)):
                part = words[place].replace(".jsonl", f".{shard.replace('/', '-of-')}.jsonl")
                words_of_part = (*words[:place], part, *words[place + 1 :], "--shard", shard)
                parts.append(self.add(f"{name} ({shard})", kind, folder, *words_of_part))
            words = ("python", "scripts/gather_shards.py", "--shards", ",".join(parts), "--output_path", words[place])
            name, kind = f"{name}: shards joined", "other"
        outputs = tuple(b for a, b in zip(words, words[1:], strict=False) if a in OUTPUTS)
        read = {part for word in words for part in (word, *re.split("[=,+]", word))} - {*outputs}
        sources = tuple(path for path in self._makers if path in read)
        step = Step(name, kind, words, also or outputs, sources, f"{folder}/times.jsonl")
        if step.output not in self.steps:
            self.steps[step.output] = step
            self._makers |= dict.fromkeys((*outputs, *also), step)
        return step.output

    def before(self, step: Step) -> list[str]:
        """The outputs that name the steps which make a step's inputs."""
        return list(dict.fromkeys(self._makers[path].output for path in step.sources))


@dataclass(frozen=True)
class World:
    """What all steps of one domain and size share. Tuples are flags of the steps that they are named after."""

    configs: str
    train_tasks: str
    test_tasks: str
    trajectories: str = ""  # of a released file, instead of collecting
    evaluator: str = "evaluate_code"
    evaluating: tuple[str, ...] = ()
    imitated: str = "rewarded"  # what rejection fine-tuning reads
    critic: str = "critic"
    critic_model: str = ""  # what the critic "value" starts from
    launch: tuple[str, ...] = ("python",)
    training: tuple[str, ...] = ()
    playing: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    sampling: tuple[str, ...] = ()
    pairing: tuple[str, ...] = ()
    grading: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()  # of ranking
    reference: bool = False  # candidates are ranked against the agent
    engine: tuple[str, ...] = ()  # of agents in the process
    hosts: tuple[tuple[str, str], ...] = ()  # (model, servers that have it)

    def player(self, model: str) -> tuple[str, ...]:
        """Flags that say where an agent is played: behind the hosted API, on its servers, or in the process."""
        where = ("--agent_hostname", dict(self.hosts)[model]) if model in dict(self.hosts) else self.engine
        return ("--agent_model", model, *(("--agent_engine", "openai") if model in HOSTED else where))


class Branch:
    """The method on the dialogues of one agent, with one seed, in one folder.

    Args:
        settings: CRITICS, RANKINGS, and the flags of acting by the names of critics, from experiments.py.
        agent: the model that is trained; it also samples the candidates.
        dialogues: trajectories of another branch; default: those of the world, or collected here.
    """

    def __init__(self, plan: Plan, world: World, settings: dict, folder: str, seed: int, agent: str, dialogues: str = ""):
        self.plan, self.world, self.settings, self.folder, self.seed = plan, world, settings, folder, seed
        self.agent, self.given = agent, dialogues or world.trajectories

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def _add(self, name: str, kind: str, script: str, config: str, *words: object, launch=("python",)) -> str:
        flags = ("--config", f"{self.world.configs}/{config}.yaml") if config else ()
        return self.plan.add(name, kind, self.folder, *launch, f"scripts/{script}.py", *flags, *words)

    def _play(self, name: str, config: str, model: str, tasks: str, output: str, seed: int, *flags: object) -> str:
        """Step 1."""
        words = (*self.world.player(model), *self.world.playing, "--input_path", tasks, "--output_path", output)
        return self._add(name, "dialogues", "simulate_interactions", config, *words, "--seed", seed, *flags)

    def trajectories(self) -> str:
        """Step 1 on the training tasks, unless there are dialogues."""
        where = self.world.train_tasks, self.path("trajectories.jsonl"), self.seed + 1000
        return self.given or self._play("collect", "collection", self.agent, *where)

    def data(self, name: str) -> str:
        """Step 2: rewarded, pairs, pairs_with_c or best."""
        world, files = self.world, {"--output_path": "rewarded", "--preference_path": "pairs"}
        files |= {"--ground_truth_preference_path": "pairs_with_c"}
        best = ("--best_path", self.path("best.jsonl")) if world.imitated == "best" else ()
        made = [word for flag, file in files.items() for word in (flag, self.path(f"{file}.jsonl"))]
        words = ("--input_path", self.trajectories(), *made, *world.evaluating, *world.grading, *world.texts, *best)
        self._add("grade, pair", "grading", world.evaluator, "", *words)
        return self.path(f"{name}.jsonl")

    def train(self, name: str, script: str, config: str, data: str, save: str, *flags: object, model: str = "") -> str:
        """Steps 3 and 7, and the baselines."""
        words = ("--pretrain", model or self.agent, "--dataset", data, "--save_path", self.path(save))
        words += ("--seed", self.seed, *self.world.training, *flags)
        return self._add(f"train {name}", "train", script, config, *words, launch=self.world.launch)

    def critic(self, name: str) -> str:
        """Step 3."""
        title, script, config, data, *flags = self.settings["critics"][name]
        model = self.world.critic_model if name == "value_critic" else ""
        return self.train(title, script, config, self.data(data), name, *flags, model=model)

    def candidates(self) -> str:
        """Step 4."""
        hosts = dict(self.world.hosts)
        where = ("--hostname", hosts[self.agent]) if self.agent in hosts else ("--engine", *(self.world.engine[1:] or ["auto"]))
        words = ("--input_path", self.data("rewarded"), "--output_path", self.path("candidates.jsonl"), "--seed", self.seed)
        words = ("--model_id", self.agent, *where, *words, *self.world.sampling)
        return self._add("sample candidates", "candidates", "sample_best_of_n", "sampling", *words)

    def ranked(self, name: str = "") -> str:
        """Step 5, by one of RANKINGS, or by the world's critic."""
        critic, *flags = self.settings["rankings"].get(name) or [self.world.critic]
        flags = [flag.replace("{agent}", self.agent) for flag in flags]
        by_value = critic and self.settings["critics"][critic][1] == "train_value"
        scoring = ("--reference_model_id", self.agent) if self.world.reference and not by_value else ()
        title = name or ("value" if by_value else "")
        words = ("--model_id", self.critic(critic) if critic else self.agent, "--input_path", self.candidates())
        words += ("--output_path", self.path(f"ranked{name and '_'}{name}.jsonl"), *scoring, *self.world.precision, *flags)
        title = f"rank candidates ({title})" if title else "rank candidates"
        return self._add(title, "ranking", "rank_best_of_n", "value_ranking" if by_value else "ranking", *words)

    def policy(self, name: str) -> tuple:
        """(model, configuration of its evaluation, more flags): of a baseline, or after steps 6 and 7."""
        kind, _, rest = name.partition("_")
        if name == "zero_shot":
            return self.agent, "evaluation"
        if name.startswith(("single_turn", "multi_turn")):
            other = self.settings["others"].get(name[len("single_turn_") :], self.agent)
            return other, "single_turn" if kind == "single" else "evaluation"
        if kind == "rft":
            data = self.data(self.world.imitated)
            flags = "train_sft", "rejection_fine_tuning", data, "rft", *self.world.texts
            return self.train("rejection fine-tuning", *flags), "evaluation"
        if kind == "dpo":
            return self.train("multi-turn DPO", "train_dpo", "multi_turn_dpo", self.data("pairs"), "dpo"), "evaluation"
        if kind == "act":
            critic, _, count = rest.rpartition("_")
            flags = [flag.replace("{dir}", self.folder) for flag in self.settings["acting"].get(critic, ())]
            for flag in flags:
                if flag.startswith(f"{self.folder}/"):
                    self.critic(Path(flag).name)
            chosen = ("--candidates", count) if critic else ()
            return self.agent, "evaluation", *chosen, *self.settings["act_tasks"], *flags
        suffix, title = f"_{rest}" if rest else "", f" ({rest})" if rest else ""
        words = ("--input_path", self.ranked(rest), "--output_path", self.path(f"turn_pairs{suffix}.jsonl"), "--seed", self.seed)
        script = "generate_random_pairs_from_ranks"
        pairs = self._add(f"turn pairs{title}", "other", script, "turn_pairs", *words, *self.world.pairing)
        return self.train(f"SWEET-RL{title}", "train_dpo", "actor", pairs, name), "evaluation"

    def graded(self, name: str) -> str:
        """Step 8: the policy's dialogues on the test tasks, and their rewards."""
        model, config, *flags = self.policy(name)
        title = "evaluate single_turn" if name.startswith("single_turn") else f"evaluate {name}"
        output = self.path(f"{name}.test.jsonl")
        self._play(f"{title}: dialogues", config, model, self.world.test_tasks, output, self.seed, *flags)
        words = ("--input_path", output, "--output_path", self.path(f"{name}.graded.jsonl"), *self.world.evaluating)
        return self._add(f"{title}: grades", "grading", self.world.evaluator, "", *words)

    def sub(self, name: str, agent: str = "", grading: tuple[str, ...] = ()) -> Branch:
        """A branch in a folder below, on the same dialogues: of another agent, or on fewer of them."""
        world = replace(self.world, grading=grading) if grading else self.world
        return Branch(self.plan, world, self.settings, self.path(name), self.seed, agent or self.agent, self.trajectories())
