#!/usr/bin/env bash
# Backend Programming with the paper's settings (configs/paper/backend): zero-shot, rejection fine-tuning, multi-turn
# DPO and SWEET-RL, evaluated on the same test tasks. The steps are those of run_mini.sh, on GPUs.
#
#   vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4     # the simulated human, on node1
#   bash scripts/run_backend.sh --hostname node1:8000 --train_tasks train.jsonl --test_tasks test.jsonl
#
# From the released trajectories, without collecting any:
#
#   bash scripts/run_backend.sh --hostname node1:8000 --test_tasks test.jsonl \
#       --trajectories colbench_code_offline_15k_llama8b.jsonl \
#       --response_template '<|start_header_id|>assistant<|end_header_id|>'
#
#   --dry_run                print every command with its settings, run none
#   --hostname LIST          server(s) of the simulated human, host:port, several separated by commas
#   --train_tasks FILE       tasks to collect trajectories on           --test_tasks FILE   tasks to evaluate on
#   --trajectories FILE      use these trajectories instead of collecting (released file, or an earlier run's)
#   --response_template TEXT what stands before the agent's turns in such a file's texts
#   --agent_model NAME       the model to train                         --env_model NAME    the simulated human
#   --agent_hostname LIST    server(s) of the untrained agent; without them, and for trained policies: this process
#   --engine NAME            in this process: auto, vllm or transformers
#   --gpus N                 GPUs to train on (default: all of this machine; 0: CPU, without DeepSpeed)
#   --launcher COMMAND       starts trainings instead of torchrun, e.g. "deepspeed --hostfile hosts"
#   --methods LIST           of: rejection_fine_tuning multi_turn_dpo sweet (default: all; zero-shot is always there)
#   --num_tasks N            only so many tasks of each file, to try the set-up
#   --agent_prompt_path FILE, --user_prompt_path FILE, --seed N, --output DIR
#
# Needs `pip install -e '.[vllm,deepspeed]'` in the active environment. Stopped at any point, the same command continues.
set -euo pipefail

me=run_backend.sh methods="rejection_fine_tuning multi_turn_dpo sweet"
source "$(dirname "$0")/backend.sh"
known="${known}methods "
pipeline_options "$@"
backend_setup

collect
grade
evaluate zero_shot "$agent"
runs="zero-shot=$dir/zero_shot.graded.jsonl" baselines="zero-shot"
for method in $methods; do
    "$method"
    case "$method" in
        rejection_fine_tuning) runs="$runs,rejection fine-tuning=$dir/rft.graded.jsonl" ;;
        multi_turn_dpo) runs="$runs,multi-turn DPO=$dir/dpo.graded.jsonl" baselines="zero-shot,multi-turn DPO" ;;
        sweet) runs="$runs,SWEET-RL=$dir/sweet.graded.jsonl" ;;
    esac
done
step "results" python scripts/compare_runs.py --runs "$runs" --baselines "$baselines" \
    --output_path "$dir/results.json" --markdown_path "$dir/results.md" --overwrite
