"""The tables and figures: which runs they compare, and how they are drawn."""

from __future__ import annotations

from pathlib import Path

from sweet_rl.errors import UserError
from sweet_rl.evaluation.tries import Try, write_log
from sweet_rl.pipeline.plan import Plan, values_of
from sweet_rl.pipeline.tries import chosen_settings, read_tries
from sweet_rl.runs.manifest import hash_input

METHODS = {"zero-shot": "zero_shot", "rejection fine-tuning": "rft", "multi-turn DPO": "dpo", "SWEET-RL": "sweet"}
ONLINE = {**METHODS, "GRPO": "grpo", "GRPO with turn credit": "grpo_credit"}
ONLINE_STEPS = ("GRPO with turn credit", "GRPO"), ("SWEET-RL", "GRPO with turn credit"), ("SWEET-RL", "multi-turn DPO")
STUDIED = "SWEET-RL (critic of the study)"  # the best of credit_study
ABLATIONS = {
    "SWEET-RL": "sweet", "regression head": "sweet_regression_head",
    "without training-time information": "sweet_without_c",
    "without length normalisation": "sweet_without_normalisation",
}  # fmt: skip
MINI_ABLATIONS = {"one mean for the dialogue": "sweet_one_mean", "no critic training": "sweet_untrained"}
MINI_ABLATIONS |= {"seed model as reference": "sweet_seed"}
LENGTHS = ("SWEET-RL", "without length normalisation", "one mean for the dialogue")  # rows of a pretrained agent
ACTORS = {"SWEET critic": "sweet", "value function": "value", "without training-time information": "without_c"}
CREDIT = {
    "SWEET critic": "ranked", "SWEET critic (seed reference)": "ranked_seed",
    "regression head": "ranked_regression_head", "value function": "ranked_value_function",
    "without training-time information": "ranked_without_c",
    "without length normalisation": "ranked_without_normalisation",
    "one mean for the dialogue": "ranked_one_mean", "no critic training": "ranked_untrained",
}  # fmt: skip
HOSTED = {"gpt-4o": "GPT-4o", "o1-mini": "o1-mini"}  # models behind the hosted API, by their names in tables
FIRST_TRY = 100  # seed of the tries of settings; tables take those below
CHAIN = "SWEET-RL>multi-turn DPO>rejection fine-tuning"


class Tables(Plan):
    """The plan of experiments.yaml. Each target has a method; `targets` has the outputs of those that were called."""

    def __init__(self, config: dict, options: dict, sizes: list[str], shards: dict[str, int]):
        super().__init__(config, options, sizes, shards)
        servers = {"env_model": "hostname", "agent_model": "agent_hostname"}
        self.servers = {options[model]: options[host] for model, host in servers.items() if options[host]}
        self.values["dialogues"] = "{trajectories}" if options["trajectories"] else "{top}/trajectories.jsonl"
        self.results, self.paper = f"{self.out}/results", bool(options["paper"])
        self.world = "hard mini" if options["world"] == "hard" else "mini"
        self.targets: dict[str, list[str]] = {}
        self.log = options["settings"] or self.values.get("settings") or ""
        self.chosen = chosen_settings(self.log) if options["settings"] or Path(self.log).is_file() else {}
        self.tries: dict[str, Try] = {}  # by folder
        self.named: set[tuple[str, str]] = set()  # (folder, step) of all that is planned

    def settings_of(self, folder: str, name: str, values: dict) -> dict:
        """Those of the try that the folder is for; elsewhere the chosen ones, in the world that they were chosen in."""
        self.named.add((folder, name))
        elsewhere = self.chosen if values["configs"] == self.values["configs"] else {}
        return (self.tries[folder].settings if folder in self.tries else elsewhere).get(name, {})

    def place(self, kind: str, words: list[str]) -> list[str]:
        """Say where the agent is played: behind the hosted API, on a server, or in the process of the step."""
        places = {"dialogues": ("--agent_model", "--agent_"), "candidates": ("--model_id", "--")}
        flag, prefix = places.get(kind, ("", ""))
        engine = self.options["engine"] if self.paper else "auto" if kind == "candidates" else ""
        for model in values_of(words, flag):
            engine = "openai" if model in HOSTED else engine
            if model in self.servers:
                return [*words, f"{prefix}hostname", self.servers[model]]
        return [*words, f"{prefix}engine", engine] if engine and flag else words

    def table(
        self, target: str, rows: dict, *flags: str, name: str = "", script: str = "compare_runs", runs: str = "--runs"
    ) -> None:
        """Plan a table of runs by what they are called, in the flag `runs`; the seeds of a run are joined by +."""
        name, code = name or target, script == "compare_runs"
        seeds = [f"{self.out}/seed{seed}" for seed in range(self.options["seeds"])]
        end = ".graded.jsonl" if code else ".jsonl"
        files = {row: "+".join(f"{seed}/{run}{end}" for seed in seeds) for row, run in rows.items()}
        path, listed = f"{self.results}/{name}", ",".join(map("=".join, files.items()))
        words = runs, listed, "--overwrite", "--output_path", f"{path}.json", "--markdown_path", f"{path}.md"
        words += ("--latex_path", f"{path}.tex", *flags) if code else flags
        words += ("--settings", f"{hash_input(self.log)[:12]} ({Path(self.log).name})") if self.chosen and code else ()
        self._show(target, f"results: {name}", f"scripts/{script}.py", *words)

    def plot(self, target: str, kind: str, *flags: str, table: str = "", name: str = "") -> None:
        """Plan a figure of a table; by default beside the paper's figures of that name."""
        table, name = table or target, name or table or target
        title = target.replace("table", "Table ").replace("figure", "Figure ")
        title = () if self.paper else ("--title", f"{title}, on the {self.world} tasks")
        flags = flags or ("--paper", target, *title)
        words = "--kind", kind, "--results", f"{self.results}/{table}.json", "--output_path", f"{self.results}/{name}"
        self._show(target, f"plot: {name}", "visualizers/plot_results.py", *words, *flags)

    def _show(self, target: str, name: str, *words: str, after=()) -> None:
        self.targets.setdefault(target, []).append(self.add(name, "other", self.out, "python", *words, after=after))

    def table2(self) -> None:
        others = {"strong": "Llama-3.1-70B-Instruct"} | (HOSTED if self.options["hosted"] else {}) if self.paper else {}
        rows, flags = {"single turn": "single_turn"}, ("--paper", "table2", "--baselines", "zero-shot")
        for name, title in others.items():
            rows |= {f"single turn ({title})": f"single_turn_{name}", f"multi-turn ({title})": f"multi_turn_{name}"}
        rounds = range(2, (self.options["iterations"] or 1) + 1)
        rows |= METHODS | {f"SWEET-RL (round {number})": f"round{number}/sweet" for number in rounds}
        chains = f"{CHAIN}>zero-shot"
        if self.world == "hard mini":
            rows |= {STUDIED: "sweet_pmi_belief", "SWEET-RL (seed model as reference)": "sweet_seed"}  # the paper's
            chains += f",{STUDIED}>multi-turn DPO"
        self.table("table2", rows, *flags, "--chains", chains)
        self.plot("table2", "table")
        self.plot("table2", "budget", "--title", "Success against cost", name="budget")
        if self.options["frontend_hostname"]:
            pages = {name: f"frontend/{run}" for name, run in METHODS.items()}
            self.table("table2", pages, *flags, "--chains", f"{CHAIN}>zero-shot", name="table2_frontend")
            self.plot("table2", "table", "--paper", "table2", table="table2_frontend")

    def table3(self) -> None:
        rows = ABLATIONS if self.paper else ABLATIONS | MINI_ABLATIONS
        rows = {name: rows[name] for name in LENGTHS} if self.options["pretrained"] else rows
        self.table("table3", rows, "--paper", "table3", "--baselines", "SWEET-RL")
        self.plot("table3", "table")
        self.plot("table3", "lengths", "--title", "Length of the agent's messages", name="table3_lengths")

    def table4(self) -> None:
        flags = "--paper", "table4", "--baselines", "zero-shot", "--chains", f"{CHAIN},SWEET-RL>zero-shot"
        self.table("table4", {name: f"strong/{run}" for name, run in METHODS.items()}, *flags)
        self.plot("table4", "table")

    def figure3a(self) -> None:
        rows, numbers = {}, self.values["best_of"]
        for critic, run in (ACTORS | ({"LLM as a judge": "judge"} if self.options["judge"] else {})).items():
            rows |= {f"{critic}@1": "act_1", **{f"{critic}@{n}": f"act_{run}_{n}" for n in numbers}}
        others = dict.fromkeys(row.partition("@")[0] for row in rows if not row.startswith("SWEET"))
        chains = [f"SWEET critic@{n}>{critic}@{n}" for n in numbers for critic in others]
        self.table("figure3a", rows, "--chains", ",".join([*chains, f"SWEET critic@{numbers[-1]}>SWEET critic@1"]))
        self.plot("figure3a", "curves")

    def figure3b(self) -> None:
        rows = {}
        for method, run in list(METHODS.items())[1:]:
            shares = {f"{method}@{n}": f"first_{tasks}_tasks/{run}" for tasks, n in self.values["shares"].items()}
            rows |= {f"{method}@0": "zero_shot", **shares, f"{method}@{self.values['all_dialogues']}": run}
        self.table("figure3b", rows)
        self.plot("figure3b", "curves")

    def online(self) -> None:
        rows, each = {}, self.values["all_dialogues"]
        rounds = range(1, (self.options["iterations"] or 4) + 1)
        for method, run in list(ONLINE.items())[1:]:
            rows |= {f"{method}@0": "zero_shot", f"{method}@{each}": run}
            for number in rounds[1:]:
                folder = f"round{number}" if run == "sweet" else f"round{number}_{run}"
                rows[f"{method}@{number * each}"] = f"{folder}/{run}"
        steps = [f"{better}@{n * each}>{worse}@{n * each}" for n in rounds for better, worse in ONLINE_STEPS]
        self.table("online", rows, "--chains", ",".join(steps))
        self.plot("online", "curves", "--x_label", "dialogues", "--title", "Success against dialogues, in rounds")

    def credit(self) -> None:
        self.table("credit", CREDIT, script="measure_mini_credit")
        self.plot("credit", "credit", "--title", "Agreement with the oracle")

    def credit_study(self) -> None:
        shares = {str(n): f"study/first_{tasks}_tasks/study" for tasks, n in self.values["study_shares"].items()}
        self.table("credit_study", {"0": "study"} | shares, script="measure_mini_credit", runs="--studies")
        self.plot("credit_study", "credit_study", "--title", "Agreement with the oracle")
        policies = {name: f"sweet_{ranker}" for name, ranker in self.values["best_critics"].items()}
        flags = "--baselines", "SWEET-RL"
        self.table("credit_study", {"SWEET-RL": "sweet"} | policies, *flags, name="credit_study_policies")
        self.plot("credit_study", "table", "--title", "Policies of four critics", table="credit_study_policies")

    def pages(self) -> None:
        more = {"SWEET-RL (regression head)": "sweet_regression_head", "SWEET-RL (sum of pmi)": "sweet_pmi_sum"}
        runs = {name: f"pages/{run}" for name, run in (METHODS | more).items()}
        self.table("pages", runs, "--baselines", "zero-shot,multi-turn DPO", "--chains", f"{CHAIN}>zero-shot")
        self.plot("pages", "table", "--title", "Pages")
        runs = {"SWEET critic": "", "SWEET critic (seed reference)": "_seed", "regression head": "_regression_head"}
        runs |= {"sum of pmi": "_pmi_sum", "no critic training": "_untrained", "without the page": "_without_c"}
        runs = {name: f"pages/ranked{critic}" for name, critic in runs.items()}
        self.table("pages", runs, name="pages_credit", script="measure_mini_credit")
        self.plot("pages", "credit", "--title", "Agreement with the oracle, pages", table="pages_credit")

    def settings(self) -> None:
        """Plan the tries of every method, on tasks and with seeds of their own."""
        for method in read_tries(f"{self.values['configs']}/tries.yaml"):
            for number, settings in enumerate(method.tries, start=1):
                folder, seeds = f"try{number}_{method.run}", range(FIRST_TRY, FIRST_TRY + self.options["try_seeds"])
                graded = tuple(f"{self.out}/seed{seed}/{folder}/{method.run}.graded.jsonl" for seed in seeds)
                self.tries[folder] = Try(method.name, number, settings, graded)
                for path in graded:
                    self.make(path)
                if unknown := [step for step in settings if (folder, step) not in self.named]:
                    raise UserError(f"{method.name}: {', '.join(unknown)}: no such step is behind {method.run}.")
                self.targets.setdefault("settings", []).extend(graded)

    def write_log(self) -> None:
        """Write the log of the tries, with the chosen ones, to the results."""
        names = ("tasks/train", "tasks/test", "tasks_settings/train", "tasks_settings/test")
        tasks = {name: f"{self.out}/{name}.jsonl" for name in names}
        write_log(f"{self.results}/settings", list(self.tries.values()), self.makers, tasks)

    def page(self) -> None:
        more = " --world hard" * (self.world == "hard mini") + " --smoke" * self.options["smoke"]
        more += f" --iterations {self.options['iterations']}" if self.options["iterations"] else ""
        if model := self.options["pretrained"]:
            more += f" --pretrained {Path(model).name if Path(model).is_dir() else model}"
        command = "bash scripts/reproduce.sh {target} --mini --seeds {seeds}" + more
        words = "--input_dir", self.results, "--output_dir", self.options["page"], "--command", command, "--overwrite"
        after = tuple(path for made in self.targets.values() for path in made)
        self._show("page", "page of results", "scripts/write_results_page.py", *words, after=after)
