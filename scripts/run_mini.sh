#!/usr/bin/env bash
# Trains an agent that learns to ask, on two CPU cores and without a download: zero-shot, rejection fine-tuning,
# multi-turn DPO and SWEET-RL on the mini tasks, all evaluated on the same held-out tasks.
#
#   bash scripts/run_mini.sh                    # one seed; results.json, results.md and the table at the end
#   bash scripts/run_mini.sh --task_type html   # the same with web pages: an agent that learns to listen to a designer
#   bash scripts/run_mini.sh --seeds "0 1 2"    # several seeds, one table
#   bash scripts/run_mini.sh --num_train 100    # on more or fewer training tasks (default 50; 200 pages)
#   bash scripts/run_mini.sh --smoke            # every step on a handful of tasks
#   bash scripts/run_mini.sh --credit           # also: how well the critic credits turns, with and without c
#
# Other options: --output DIR (default runs/mini, runs/mini-100 with --num_train 100, runs/mini-smoke; runs/mini-html for
# pages). Stopped at any point, the same command continues: finished steps are passed over and a half-done one goes on
# where it was.
# The virtual environment is .venv, or the folder that SWEET_RL_VENV names.
set -euo pipefail

seeds="0" output="" smoke="" train_count="" credit="" task_type=code
while [ $# -gt 0 ]; do
    case "$1" in
        --seeds) seeds="${2:?--seeds needs a list such as \"0 1 2\"}"; shift 2 ;;
        --output) output="$(realpath -m "${2:?--output needs a folder}")"; shift 2 ;;
        --task_type) task_type="${2:?--task_type needs code or html}"; shift 2 ;;
        --num_train) train_count="${2:?--num_train needs a number of tasks}"; shift 2 ;;
        --smoke) smoke=1; shift ;;
        --credit) credit=1; shift ;;
        *) echo "run_mini.sh: unknown option $1 (there are --task_type, --seeds, --num_train, --output, --smoke, --credit)" >&2; exit 2 ;;
    esac
done
case "$task_type" in
    code) html="" ;;
    html) html=1 ;;
    *) echo "run_mini.sh: --task_type is $task_type; it must be code or html" >&2; exit 2 ;;
esac

cd "$(dirname "$0")/.."
out="${output:-runs/mini${html:+-html}${train_count:+-$train_count}${smoke:+-smoke}}"
source scripts/mini.sh
mini_environment
mkdir -p "$out"

measure_credit() { # ranks the same candidates in other ways, and asks the oracle
    critic critic_without_c pairs
    rank seed "$dir/critic" --reference seed --reference_model_id "$agent"
    rank untrained "$agent"
    rank without_c "$dir/critic_without_c" --no_prompt
    python scripts/measure_mini_credit.py --output_path "$dir/credit.json" --overwrite --runs \
"critic without c=$dir/ranked_without_c.jsonl,untrained=$dir/ranked_untrained.jsonl,\
critic (seed reference)=$dir/ranked_seed.jsonl,critic=$dir/ranked.jsonl"
}

mini_tasks
for seed in $seeds; do
    dir="$out/seed$seed"
    mkdir -p "$dir"
    beside "$dir/zero_shot.log" evaluate zero_shot "$agent"
    collect
    if [ "$imitated" = best ]; then grade --best_path "$dir/best.jsonl"; else grade; fi
    joined "$dir/zero_shot.log"
    echo "-- candidates and multi-turn DPO run beside the critic; their output is in $dir/beside.log and follows"
    sweet_and multi_turn_dpo
    [ -z "$credit" ] || measure_credit
done

echo "== results on $num_test held-out tasks, seeds: $seeds"
python scripts/compare_runs.py --overwrite --output_path "$out/results.json" --markdown_path "$out/results.md" \
    --baselines "zero-shot,multi-turn DPO" --runs \
"zero-shot=$(seed_files zero_shot),rejection fine-tuning=$(seed_files rft),multi-turn DPO=$(seed_files dpo),\
SWEET-RL=$(seed_files sweet)"
echo "written: $out/results.json, $out/results.md; $SECONDS s in all"
