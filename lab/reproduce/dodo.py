"""The tables and figures of the paper as a recipe for doit (https://pydoit.org).

    doit table2                                          the tiny agent on CPU, seeds 0 to 4
    WORLD=hard SEEDS=2 doit -n 2 table2 table3           the hard world, two seeds, two steps at the same time
    WORLD=paper HUMAN_SERVER=node1:8000 doit table2      the paper's models and settings, on GPUs
    doit list --all --sort definition steps              every step with its command
    doit steps:seed0/critic                              one step, and the steps that it needs

A step is a task that is named after its output. The commands are those of scripts/run_mini.sh, the numbers of the steps
are those of docs/tutorial.md. doit runs a step if its command or the content of an input has changed, or if it has not
ended well yet. The script then continues its own output; it refuses an output of other settings or inputs and says what
differs. docs/results.md describes most variables, docs/gpus.md the way to run the steps as jobs of Slurm.
"""

import json
import os
import re
import sys
from itertools import pairwise
from pathlib import Path

from doit.tools import config_changed


def variable(name, default):
    return os.environ.get(name) or default


def refuse(text):
    print(f"dodo.py: {text}", file=sys.stderr)
    sys.exit(2)  # doit ends with 1 if a step failed


def critic_settings(**settings):
    """The flag with the settings of a critic, as one word, because commands are split at their spaces."""
    return f"--critic_settings '{json.dumps(settings, separators=(',', ':'))}'"


WORLD = variable("WORLD", "quick")  # quick or hard: an embedded world; paper: the paper's models on ColBench
if WORLD not in ("quick", "hard", "paper"):
    refuse(f"WORLD={WORLD} is no world; it may be quick, hard or paper.")
PAPER, OUT = WORLD == "paper", variable("OUT", f"runs/{WORLD}")
if not re.fullmatch(r"[\w./=@:%-]+", OUT):  # commands are split at spaces, lists of runs at , and +
    refuse(f"OUT={OUT}: choose a path of letters, digits and . / _ - = @ : % alone.")
RESULTS = f"{OUT}/results"
FIRST_SEED, SEEDS = int(variable("SEED", "0")), int(variable("SEEDS", "1" if PAPER else "5"))
FOLDERS = {f"{OUT}/seed{seed}": seed for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)}
SHARDS = int(variable("SHARDS", "1"))  # parts in which a file of dialogues, candidates or ranks is made

# What runs a script: a training; a step with a language model in its process; any other step.
LAUNCH = variable("LAUNCH", "torchrun --nproc_per_node 8" if PAPER else "python")
LAUNCH_MODEL = variable("LAUNCH_MODEL", "python")
LAUNCH_CPU = variable("LAUNCH_CPU", "python")

# More flags of the steps.
PLAY, TRAIN = variable("PLAY_FLAGS", ""), variable("TRAIN_FLAGS", "")

if PAPER:
    CONFIGS = "configs/paper/backend"
    AGENT = variable("AGENT", "meta-llama/Llama-3.1-8B-Instruct")
    STRONG = variable("STRONG", "meta-llama/Llama-3.1-70B-Instruct")  # the stronger agent of tables 2 and 4
    HUMAN = variable("HUMAN", "meta-llama/Llama-3.1-70B-Instruct")
    SERVERS = {AGENT: variable("AGENT_SERVER", ""), HUMAN: variable("HUMAN_SERVER", "localhost:8000")}
    TRAIN_TASKS = variable("TRAIN_TASKS", "colbench/backend/train")
    TEST_TASKS = variable("TEST_TASKS", "colbench/backend/test")
    PLAY += f" --env_model {HUMAN} --hostname {SERVERS[HUMAN]}"
    GRADE = f"--tokenizer {AGENT}"
    # The protocol of the dialogues: the published one, to compare with the paper, or sweet_rl, the package's own.
    PROTOCOL, FILES = variable("PROTOCOL", "released"), variable("PROTOCOL_FILES", "")
    SEVERAL_TURNS = f"--protocol {PROTOCOL} --protocol_files {FILES}" if FILES else f"--protocol {PROTOCOL}"
    SINGLE_TURN = "--protocol sweet_rl"  # because it has a prompt of its own, and no human replies
    RULES = "--paper_grader" if PROTOCOL == "released" else ""
    REFERENCE = variable("REFERENCE", "sampled")  # of the ranking; the paper's is seed
    ACT = f"--critic_reference {REFERENCE} --critic_bf16"
    ACT += "" if REFERENCE == "sampled" else f" --critic_reference_model_id {AGENT}"
    ACT_VALUE = critic_settings(bf16=True)
    SHARES, ALL_DIALOGUES = {3000: 1000, 9000: 3000}, 15000  # dialogues: their tasks
    BEST_OF = (2, 4, 8, 16, 32)
    OTHERS = {"strong": (STRONG, "Llama-3.1-70B-Instruct")}  # of Table 2: name of the run, model, name of the row
    if variable("HOSTED", ""):
        OTHERS |= {"gpt-4o": ("gpt-4o", "GPT-4o"), "o1-mini": ("o1-mini", "o1-mini")}
    JUDGE = variable("JUDGE", AGENT)
else:
    AGENT = "mini_hard" if WORLD == "hard" else "mini"
    CONFIGS = f"configs/{AGENT}"
    STRONG, SERVERS = f"{OUT}/strong_agent", {}
    TRAIN_TASKS = variable("TRAIN_TASKS", f"{OUT}/tasks/train.jsonl")
    TEST_TASKS = variable("TEST_TASKS", f"{OUT}/tasks/test.jsonl")
    GRADE, SEVERAL_TURNS, SINGLE_TURN, RULES = "--k 4", "", "", ""
    ACT, ACT_VALUE = "--num_tasks 200 --critic_reference sampled", "--num_tasks 200"
    SHARES, ALL_DIALOGUES = {40: 10, 120: 30}, 200
    BEST_OF = (2, 4, 8, 16)
    OTHERS, JUDGE = {}, variable("JUDGE", "")
    os.environ.update(TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")

# Settings that were chosen by tries on validation tasks; they replace those of the configurations.
LOG = Path(variable("SETTINGS", f"results/{AGENT}/settings.json"))
CHOSEN = {}
if LOG.is_file():
    for method in json.loads(LOG.read_text(encoding="utf-8"))["methods"].values():
        for one in method["tries"]:
            if one["chosen"]:
                CHOSEN.update(one["settings"])  # {step: {flag: value}}

os.makedirs(f"{OUT}/logs", exist_ok=True)
DOIT_CONFIG = {
    "default_tasks": ["table2"],
    "dep_file": f"{OUT}/doit.db",
    "backend": "sqlite3",
    "num_process": 0 if PAPER else os.cpu_count(),
    "par_type": "thread",
    "verbosity": 2,
}


# Steps.


def file_of(path):
    """The file that changes whenever an output does: a file itself, the manifest of a model."""
    return path if Path(path).suffix else f"{path}/manifest.json"


NO_INPUTS = ("--cache", "--protocol_files")  # flags of folders that no step makes


def step(output, command, *more_outputs):
    """A task for one command. Its inputs are the configuration and all other paths below OUT."""
    words, outputs = command.split(), [output, *more_outputs]
    stem = Path(output).stem
    for flag, value in CHOSEN.get(stem, {}).items():
        if flag != "max_epochs" or stem.startswith("sweet"):  # the configurations have the others' budgets in steps
            words += [f"--{flag}", str(value)]
    read = [word for flag, word in pairwise(words) if flag not in NO_INPUTS]
    inputs = [word for word in read if word.startswith(f"{OUT}/") or word.endswith((".yaml", ".jsonl"))]
    inputs = [file_of(word) for word in inputs if word not in outputs and "://" not in word]
    command, name = " ".join(words), output.removeprefix(f"{OUT}/")
    log = f"{OUT}/logs/{name.replace('/', '.')}.log"
    # A launcher writes many lines after the error of a script.
    shown = f"tail -n 20 {log}; tail -n 80 {log} | grep '^error: ' | tail -n 1"
    return {
        "name": name,
        "doc": command,
        "actions": [f"{command} >>{log} 2>&1 || {{ {shown}; false; }}".replace("%", "%%")],
        "file_dep": inputs,
        "targets": [file_of(path) for path in outputs],
        "uptodate": [config_changed(command)],
    }


def steps_in_shards(output, command):
    """A task for each part of an output, and one that joins them."""
    if SHARDS == 1:
        yield step(output, command)
        return
    parts = [output.replace(".jsonl", f".{number}-of-{SHARDS}.jsonl") for number in range(1, SHARDS + 1)]
    for number, part in enumerate(parts, start=1):
        yield step(part, f"{command} --shard {number}/{SHARDS}".replace(output, part))
    yield step(output, f"{{ cat {' '.join(parts)} > {output} ; }}") | {"file_dep": parts}


def play(output, config, agent, tasks, seed, flags="", script="simulate_interactions"):
    """Step 1: dialogues of an agent with the human."""
    if SERVERS.get(agent):
        flags += f" --agent_hostname {SERVERS[agent]}"
    if agent in ("gpt-4o", "o1-mini"):
        flags += f" --agent_engine openai --cache {OUT}/paid_calls"
    command = f"{LAUNCH_MODEL} scripts/{script}.py --config {CONFIGS}/{config}.yaml --agent_model {agent}"
    protocol = SINGLE_TURN if config == "single_turn" else SEVERAL_TURNS
    command += f" {flags} {protocol} {PLAY} --input_path {tasks} --output_path {output} --seed {seed}"
    yield from steps_in_shards(output, command)


def train(output, script, config, agent, dataset, seed, flags=""):
    """Steps 3 and 7, and the baselines."""
    command = f"{LAUNCH} scripts/{script}.py --config {CONFIGS}/{config}.yaml --pretrain {agent} --dataset {dataset}"
    if PAPER and agent == STRONG:
        flags = f"--zero_stage 3 {flags}"  # because ZeRO-2 keeps all weights on every GPU
    return step(output, f"{command} --save_path {output} --seed {seed} {flags} {TRAIN}")


def evaluate(run, agent, seed, flags="", config="evaluation", script="simulate_interactions"):
    """Step 8: steps 1 and 2 on the test tasks."""
    yield from play(f"{run}.test.jsonl", config, agent, TEST_TASKS, seed, flags, script)
    command = f"{LAUNCH_CPU} scripts/evaluate_code.py --input_path {run}.test.jsonl --output_path {run}.graded.jsonl"
    yield step(f"{run}.graded.jsonl", f"{command} {RULES}")


def rank(folder, name, flags, config="ranking"):
    """Step 5: candidates in the order of a critic."""
    command = f"{LAUNCH_MODEL} scripts/rank_best_of_n.py --config {CONFIGS}/{config}.yaml {flags}"
    output = f"{folder}/ranked{name}.jsonl"
    yield from steps_in_shards(output, f"{command} --input_path {folder}/candidates.jsonl --output_path {output}")


def policy(folder, name, agent, seed):
    """Steps 6 to 8: turn pairs of ranked candidates, the policy that learns from them, its evaluation."""
    command = f"{LAUNCH_CPU} scripts/generate_random_pairs_from_ranks.py --config {CONFIGS}/turn_pairs.yaml"
    command += f" --input_path {folder}/ranked{name}.jsonl --output_path {folder}/turn_pairs{name}.jsonl"
    yield step(f"{folder}/turn_pairs{name}.jsonl", f"{command} --seed {seed}")
    yield train(f"{folder}/sweet{name}", "train_dpo", "actor", agent, f"{folder}/turn_pairs{name}.jsonl", seed)
    yield from evaluate(f"{folder}/sweet{name}", f"{folder}/sweet{name}", seed)


def method(folder, agent, dialogues, seed, grading=GRADE):
    """The baselines, and steps 2 to 8 of SWEET-RL, on dialogues that were collected."""
    rewarded, pairs, with_c = f"{folder}/rewarded.jsonl", f"{folder}/pairs.jsonl", f"{folder}/pairs_with_c.jsonl"
    command = f"{LAUNCH_CPU} scripts/evaluate_code.py --input_path {dialogues} --output_path {rewarded} {grading}"
    command += f" {RULES} --preference_path {pairs} --ground_truth_preference_path {with_c}"
    yield step(rewarded, command, pairs, with_c)
    yield train(f"{folder}/rft", "train_sft", "rejection_fine_tuning", agent, rewarded, seed)
    yield train(f"{folder}/dpo", "train_dpo", "multi_turn_dpo", agent, pairs, seed)
    yield train(f"{folder}/critic", "train_dpo", "critic", agent, with_c, seed)
    server = f"--hostname {SERVERS[agent]}" if SERVERS.get(agent) else ""
    command = f"{LAUNCH_MODEL} scripts/sample_best_of_n.py --config {CONFIGS}/sampling.yaml --model_id {agent} {server}"
    command += f" --input_path {rewarded} --output_path {folder}/candidates.jsonl --seed {seed}"
    yield from steps_in_shards(f"{folder}/candidates.jsonl", command)
    yield from rank(folder, "", by_ratio(f"{folder}/critic", agent))
    yield from policy(folder, "", agent, seed)
    for run, model in {"zero_shot": agent, "rft": f"{folder}/rft", "dpo": f"{folder}/dpo"}.items():
        yield from evaluate(f"{folder}/{run}", model, seed)


def by_ratio(critic, agent):
    """Flags of a critic whose scores are log-ratios."""
    if not PAPER:
        return f"--model_id {critic}"
    seed_model = "" if REFERENCE == "sampled" else f" --reference_model_id {agent}"
    return f"--model_id {critic} --reference {REFERENCE}{seed_model}"


def other_critics(folder, seed):
    """The critics of Table 3 and Figure 3a, and the policies of Table 3."""
    pairs, with_c = f"{folder}/pairs.jsonl", f"{folder}/pairs_with_c.jsonl"
    name = "_without_c"
    yield train(f"{folder}/critic{name}", "train_dpo", "critic", AGENT, pairs, seed)
    yield from rank(folder, name, f"{by_ratio(f'{folder}/critic{name}', AGENT)} --no_prompt")
    for name, training, ranking in (("_without_normalisation", "none", "none"), ("_one_mean", "trajectory", "turn")):
        yield train(f"{folder}/critic{name}", "train_dpo", "critic", AGENT, with_c, seed, f"--normalize {training}")
        yield from rank(folder, name, f"{by_ratio(f'{folder}/critic{name}', AGENT)} --normalize {ranking}")
    name = "_seed"  # the paper's reference in an embedded world, where another one is the default
    yield train(f"{folder}/critic{name}", "train_dpo", "critic", AGENT, with_c, seed)
    yield from rank(folder, name, f"--model_id {folder}/critic_seed --reference seed --reference_model_id {AGENT}")
    yield from rank(folder, "_untrained", by_ratio(AGENT, AGENT))
    name = "_regression_head"
    yield train(f"{folder}/critic{name}", "train_value", "value_critic", AGENT, with_c, seed)
    yield from rank(folder, name, f"--model_id {folder}/critic{name}", "value_ranking")
    for name in ("_without_c", "_without_normalisation", "_one_mean", "_seed", "_untrained", "_regression_head"):
        yield from policy(folder, name, AGENT, seed)
    yield train(f"{folder}/value_function", "train_value", "value_function", AGENT, f"{folder}/rewarded.jsonl", seed)
    yield from rank(folder, "_value_function", f"--model_id {folder}/value_function", "value_ranking")


ACTORS = {
    "SWEET critic": ("sweet", f"--critic CRITICS/critic {ACT}"),
    "value function": ("value", f"--critic_type value --critic CRITICS/value_function {ACT_VALUE}"),
    "without training-time information": ("without_c", f"--critic CRITICS/critic_without_c --critic_no_prompt {ACT}"),
}
if JUDGE:
    server = variable("JUDGE_SERVER", "localhost:8001")
    ACTORS["LLM as a judge"] = "judge", f"--critic_type judge --critic {JUDGE} {critic_settings(hostname=server)}"


def task_steps():
    """All steps of all tables. doit runs those that the tables on the command line need."""
    if not PAPER:
        world = "--world hard --seed 1" if WORLD == "hard" else "--seed 0"  # 0 set the difficulty
        tasks = f"{OUT}/tasks/train.jsonl", f"{OUT}/tasks/test.jsonl"
        command = f"{LAUNCH_CPU} scripts/make_mini_tasks.py {world} --num_train 50 --num_test 400"
        yield step(tasks[0], f"{command} --output_dir {OUT}/tasks", tasks[1]) | {"file_dep": []}
        command = f"{LAUNCH} -m lab.mini_agents.make_mini_agent --habits better --layers 4 --width 160"
        yield step(STRONG, f"{command} --save_path {STRONG}")
    for folder, seed in FOLDERS.items():
        dialogues = variable("DIALOGUES", f"{folder}/trajectories.jsonl")
        if "DIALOGUES" not in os.environ:
            yield from play(dialogues, "collection", AGENT, TRAIN_TASKS, seed + 1000)
        yield from method(folder, AGENT, dialogues, seed)
        if PAPER:  # the tiny agent cannot be told to answer at once; commit f2fcfdbe began its reply
            yield from evaluate(f"{folder}/single_turn", AGENT, seed, config="single_turn")
        for run, (agent, _) in OTHERS.items():
            yield from evaluate(f"{folder}/single_turn_{run}", agent, seed, config="single_turn")
            yield from evaluate(f"{folder}/multi_turn_{run}", agent, seed)
        if PAPER:
            yield from rank(folder, "_pmi", f"--model_id {AGENT}", "pmi_ranking")
            yield from policy(folder, "_pmi", AGENT, seed)
        yield from other_critics(folder, seed)
        yield from method(f"{folder}/strong", STRONG, dialogues, seed)
        yield from evaluate(f"{folder}/act_1", AGENT, seed, "" if PAPER else "--num_tasks 200")
        for number in BEST_OF:
            for run, flags in ACTORS.values():
                flags = f"--candidates {number} {flags.replace('CRITICS', folder)}"
                yield from evaluate(f"{folder}/act_{run}_{number}", AGENT, seed, flags, script="play_best_of_n")
        for tasks in SHARES.values():
            yield from method(f"{folder}/first_{tasks}_tasks", AGENT, dialogues, seed, f"{GRADE} --num_tasks {tasks}")


# Tables and figures.

METHODS = {"zero-shot": "zero_shot", "rejection fine-tuning": "rft", "multi-turn DPO": "dpo", "SWEET-RL": "sweet"}
CHAIN = "SWEET-RL>multi-turn DPO>rejection fine-tuning"


def table(name, rows, *flags, figure=None, script=("scripts/compare_runs.py",), ending=".graded.jsonl"):
    """A task for a table of runs {row: run} in RESULTS/NAME.json and .md, and for a figure of that kind."""
    files = {row: [f"{folder}/{run}{ending}" for folder in FOLDERS] for row, run in rows.items()}
    runs = ",".join(f"{row}={'+'.join(paths)}" for row, paths in files.items())
    path = f"{RESULTS}/{name}"
    outputs = "--output_path", f"{path}.json", "--markdown_path", f"{path}.md", "--overwrite"
    commands, targets = [[*script, "--runs", runs, *outputs, *flags]], [f"{path}.json", f"{path}.md"]
    if figure:
        title = () if PAPER else ("--title", f"{name.capitalize()}, on the {WORLD} world")
        drawn = "--kind", figure, "--paper", name, "--results", f"{path}.json", "--output_path", path
        commands.append(["visualizers/plot_results.py", *drawn, *title])
        targets.append(f"{path}.png")
    return {
        "actions": [[*LAUNCH_CPU.split(), *words] for words in commands],
        "file_dep": [path for paths in files.values() for path in paths],
        "targets": targets,
        "uptodate": [config_changed({"commands": commands})],
    }


def compare(name, rows, *flags, kind="table"):
    """A table of the paper, with a figure of that kind."""
    if CHOSEN:
        flags += ("--settings", str(LOG))
    return table(name, rows, "--latex_path", f"{RESULTS}/{name}.tex", *flags, figure=kind)


def task_table2():
    """The methods of Table 2."""
    rows = {"single turn": "single_turn"} if PAPER else {}
    for run, (_, name) in OTHERS.items():
        rows |= {f"single turn ({name})": f"single_turn_{run}", f"multi-turn ({name})": f"multi_turn_{run}"}
    rows |= METHODS
    if PAPER:
        rows["turn pairs by PMI"] = "sweet_pmi"
    if WORLD == "hard":
        rows["SWEET-RL (seed model as reference)"] = "sweet_seed"
    flags = "--paper", "table2", "--baselines", "zero-shot", "--chains", f"{CHAIN}>zero-shot"
    return compare("table2", rows, *flags)


def task_table3():
    """SWEET-RL with other critics."""
    rows = {"SWEET-RL": "sweet", "regression head": "sweet_regression_head"}
    rows |= {"without training-time information": "sweet_without_c"}
    rows |= {"without length normalisation": "sweet_without_normalisation"}
    if not PAPER:
        rows |= {"one mean for the dialogue": "sweet_one_mean", "no critic training": "sweet_untrained"}
        rows |= {"seed model as reference": "sweet_seed"}
    return compare("table3", rows, "--paper", "table3", "--baselines", "SWEET-RL")


def task_table4():
    """A stronger agent that learns from the dialogues of a weaker one."""
    rows = {row: f"strong/{run}" for row, run in METHODS.items()}
    flags = "--paper", "table4", "--baselines", "zero-shot", "--chains", f"{CHAIN},SWEET-RL>zero-shot"
    return compare("table4", rows, *flags)


def task_figure3a():
    """The best of N candidates at each turn, by each critic."""
    rows, chains = {}, []
    for critic, (run, _) in ACTORS.items():
        rows |= {f"{critic}@1": "act_1", **{f"{critic}@{number}": f"act_{run}_{number}" for number in BEST_OF}}
        if run != "sweet":
            chains += [f"SWEET critic@{number}>{critic}@{number}" for number in BEST_OF]
    chains.append(f"SWEET critic@{BEST_OF[-1]}>SWEET critic@1")
    return compare("figure3a", rows, "--chains", ",".join(chains), kind="curves")


def task_figure3b():
    """The methods on a part of the dialogues and on all."""
    rows = {}
    for row, run in METHODS.items():
        if run != "zero_shot":
            rows[f"{row}@0"] = "zero_shot"
            rows |= {f"{row}@{dialogues}": f"first_{tasks}_tasks/{run}" for dialogues, tasks in SHARES.items()}
            rows[f"{row}@{ALL_DIALOGUES}"] = run
    return compare("figure3b", rows, kind="curves")


def task_credit():
    """Embedded worlds: how often the ranking of each critic agrees with the oracle."""
    rows = {
        "SWEET critic": "ranked",
        "SWEET critic (seed reference)": "ranked_seed",
        "regression head": "ranked_regression_head",
        "value function": "ranked_value_function",
        "without training-time information": "ranked_without_c",
        "without length normalisation": "ranked_without_normalisation",
        "one mean for the dialogue": "ranked_one_mean",
        "no critic training": "ranked_untrained",
    }
    return table("credit", rows, script=("-m", "lab.critics.measure_mini_credit"), ending=".jsonl")


def task_all():
    """All tables and figures."""
    tables = ["table2", "table3", "table4", "figure3a", "figure3b"]
    return {"actions": None, "task_dep": tables if PAPER else [*tables, "credit"]}
