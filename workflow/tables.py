"""The tables and figures: which runs they compare, and how they are drawn."""

from __future__ import annotations

from workflow.steps import HOSTED, Plan

METHODS = {"zero-shot": "zero_shot", "rejection fine-tuning": "rft", "multi-turn DPO": "dpo", "SWEET-RL": "sweet"}
ABLATIONS = {
    "SWEET-RL": "sweet", "regression head": "sweet_regression_head", "without training-time information": "sweet_without_c",
    "without length normalisation": "sweet_without_normalisation",
}  # fmt: skip
MINI_ABLATIONS = {
    "one mean for the dialogue": "sweet_one_mean", "no critic training": "sweet_untrained",
    "seed model as reference": "sweet_seed",
}  # fmt: skip
ACTORS = {"SWEET critic": "sweet", "value function": "value", "without training-time information": "without_c"}
CREDIT = {
    "SWEET critic": "ranked", "SWEET critic (seed reference)": "ranked_seed", "regression head": "ranked_regression_head",
    "value function": "ranked_value_function", "without training-time information": "ranked_without_c",
    "without length normalisation": "ranked_without_normalisation", "one mean for the dialogue": "ranked_one_mean",
    "no critic training": "ranked_untrained",
}  # fmt: skip
CHAIN = "SWEET-RL>multi-turn DPO>rejection fine-tuning"


class Tables:
    """Plans targets; `made` has the outputs of each of them."""

    def __init__(self, plan: Plan):
        self.plan, self.options = plan, plan.options
        self.results, self.paper, self.made = f"{plan.out}/results", bool(plan.options["paper"]), {}

    def files(self, name: str) -> str:
        """A file of every seed's folder, joined by +."""
        return "+".join(f"{self.plan.out}/seed{seed}/{name}.jsonl" for seed in range(self.options["seeds"]))

    def table(self, target: str, rows: dict[str, str], *flags: str, name: str = "", script: str = "compare_runs") -> None:
        """Plan a table whose rows are runs by what they are called."""
        name, ending = name or target, "" if script != "compare_runs" else ".graded"
        runs = ",".join(f"{row}={self.files(run + ending)}" for row, run in rows.items())
        path = f"{self.results}/{name}"
        latex = ("--latex_path", f"{path}.tex") if ending else ()
        words = "--runs", runs, "--overwrite", "--output_path", f"{path}.json", "--markdown_path", f"{path}.md", *latex, *flags
        made = self.plan.add(f"results: {name}", "other", self.plan.out, "python", f"scripts/{script}.py", *words)
        self.made.setdefault(target, []).append(made)

    def plot(self, target: str, kind: str, *flags: str, table: str = "", name: str = "") -> None:
        """Plan a figure of a table."""
        table, name = table or target, name or table or target
        words = "--kind", kind, "--results", f"{self.results}/{table}.json", "--output_path", f"{self.results}/{name}", *flags
        words = "python", "visualizers/plot_results.py", *words
        self.made[target].append(self.plan.add(f"plot: {name}", "other", self.plan.out, *words))

    def beside_paper(self, target: str, kind: str) -> None:
        """Plan a figure with the paper's figures of that name."""
        title = target.replace("table", "Table ").replace("figure", "Figure ")
        self.plot(target, kind, "--paper", target, *(() if self.paper else ("--title", f"{title}, on the mini tasks")))

    def table2(self) -> None:
        rows = {"single turn": "single_turn"}
        others = {"strong": "Llama-3.1-70B-Instruct", **(HOSTED if self.options["hosted"] else {})}
        for name, title in others.items() if self.paper else ():
            rows |= {f"single turn ({title})": f"single_turn_{name}", f"multi-turn ({title})": f"multi_turn_{name}"}
        rounds = range(2, (self.options["iterations"] or 1) + 1)
        rows |= METHODS | {f"SWEET-RL (round {number})": f"round{number}/sweet" for number in rounds}
        flags = "--paper", "table2", "--baselines", "zero-shot", "--chains", f"{CHAIN}>zero-shot"
        self.table("table2", rows, *flags)
        self.beside_paper("table2", "bars")
        self.plot("table2", "budget", "--title", "Success against cost", name="budget")
        if self.options["frontend_hostname"]:
            pages = {name: f"frontend/{run}" for name, run in METHODS.items()}
            self.table("table2", pages, *flags, name="table2_frontend")
            self.plot("table2", "bars", "--paper", "table2", table="table2_frontend")

    def table3(self) -> None:
        rows = ABLATIONS if self.paper else ABLATIONS | MINI_ABLATIONS
        self.table("table3", rows, "--paper", "table3", "--baselines", "SWEET-RL")
        self.beside_paper("table3", "bars")
        self.plot("table3", "lengths", "--title", "Length of the agent's messages", name="table3_lengths")

    def table4(self) -> None:
        rows = {name: f"strong/{run}" for name, run in METHODS.items()}
        flags = "--baselines", "zero-shot", "--chains", f"{CHAIN},SWEET-RL>zero-shot"
        self.table("table4", rows, "--paper", "table4", *flags)
        self.beside_paper("table4", "bars")

    def figure3a(self) -> None:
        actors, numbers = ACTORS | ({"LLM as a judge": "judge"} if self.options["judge"] else {}), self.plan.values["best_of"]
        rows = {}
        for critic, run in actors.items():
            rows |= {f"{critic}@1": "act_1", **{f"{critic}@{n}": f"act_{run}_{n}" for n in numbers}}
        first, *others = actors
        chains = [f"{first}@{n}>{critic}@{n}" for n in numbers for critic in others]
        self.table("figure3a", rows, "--chains", ",".join([*chains, f"{first}@{numbers[-1]}>{first}@1"]))
        self.beside_paper("figure3a", "curves")

    def figure3b(self) -> None:
        rows = {}
        for method, run in list(METHODS.items())[1:]:
            shares = {f"{method}@{n}": f"first_{tasks}_tasks/{run}" for tasks, n in self.plan.values["shares"].items()}
            rows |= {f"{method}@0": "zero_shot", **shares, f"{method}@{self.plan.values['all_dialogues']}": run}
        self.table("figure3b", rows)
        self.beside_paper("figure3b", "curves")

    def credit(self) -> None:
        self.table("credit", CREDIT, script="measure_mini_credit")
        self.plot("credit", "credit", "--title", "Agreement with the oracle")

    def pages(self) -> None:
        rows = {name: f"pages/{run}" for name, run in METHODS.items()}
        self.table("pages", rows, "--baselines", "zero-shot,multi-turn DPO")

    def page(self) -> None:
        """Plan a page of the results of all other targets."""
        command = f"bash scripts/reproduce.sh {{target}} --mini --seeds {{seeds}}{' --smoke' if self.options['smoke'] else ''}"
        words = "--input_dir", self.results, "--output_dir", self.options["page"], "--command", command, "--overwrite"
        words, after = ("python", "scripts/write_results_page.py", *words), sum(self.made.values(), [])
        self.made["page"] = [self.plan.add("page of results", "other", self.plan.out, *words, after=after)]
