#!/usr/bin/env bash
# Frontend Design with the paper's settings (configs/paper/frontend): zero-shot, rejection fine-tuning, multi-turn DPO
# and SWEET-RL, evaluated on the same test tasks. The steps are those of run_backend.sh, with pages.
#
#   python scripts/prepare_websight.py --output_dir data/frontend_tasks
#   vllm serve Qwen/Qwen2-VL-72B-Instruct --tensor-parallel-size 8 --limit-mm-per-prompt '{"image": 2}' \
#       --mm-processor-kwargs '{"max_pixels": 1003520}'                      # the simulated human, on node1
#   bash scripts/run_frontend.sh --hostname node1:8000
#
#   --dry_run                print every command with its settings, run none
#   --hostname LIST          server(s) of the simulated human, host:port, several separated by commas
#   --train_tasks FILE       tasks to collect trajectories on           --test_tasks FILE   tasks to evaluate on
#   --trajectories FILE      use these trajectories instead of collecting (released file, or an earlier run's)
#   --response_template TEXT what stands before the agent's turns in such a file's texts
#   --agent_model NAME       the model to train
#   --env_model NAME         the simulated human: a vision model, or designer, the scripted one
#   --agent_hostname LIST    server(s) of the untrained agent; without them, and for trained policies: this process
#   --critic NAME            value: the paper's, a vision model that sees the reference page; log_ratio: a language model
#                            that reads its HTML
#   --critic_model NAME      what the value critic is trained from (default: Qwen/Qwen2-VL-7B-Instruct)
#   --image_encoder NAME     of the similarity (default: CLIP ViT-B/32, as in the paper)
#   --engine NAME            in this process: auto, vllm or transformers
#   --gpus N                 GPUs to train on (default: all of this machine; 0: CPU, without DeepSpeed)
#   --launcher COMMAND       starts trainings instead of torchrun, e.g. "deepspeed --hostfile hosts"
#   --methods LIST           of: rejection_fine_tuning multi_turn_dpo sweet (default: all; zero-shot is always there)
#   --num_tasks N            only so many tasks of each file, to try the set-up
#   --agent_prompt_path FILE, --user_prompt_path FILE, --seed N, --output DIR
#
# Needs `pip install -e '.[vllm,deepspeed,frontend]'` and a browser. Stopped at any point, the same command continues.
set -euo pipefail

me=run_frontend.sh methods="rejection_fine_tuning multi_turn_dpo sweet"
source "$(dirname "$0")/backend.sh"
known="${known}methods critic critic_model image_encoder "
train_tasks=data/frontend_tasks/train.jsonl test_tasks=data/frontend_tasks/test.jsonl output=runs/frontend
env_model=Qwen/Qwen2-VL-72B-Instruct critic=value critic_model=Qwen/Qwen2-VL-7B-Instruct image_encoder=""
pipeline_options "$@"
[[ "$critic" =~ ^(value|log_ratio)$ ]] || fail "unknown critic $critic (there are value, log_ratio)"
for model in critic_model image_encoder; do [ ! -d "${!model}" ] || printf -v "$model" %s "$(realpath "${!model}")"; done
backend_setup

configs=configs/paper/frontend evaluator=evaluate_html imitated=best
evaluating=(--config "$configs/grading.yaml")
[ -z "$image_encoder" ] || evaluating+=(--image_encoder "$image_encoder")

value_critic() { # the paper's frontend critic, and the candidates ranked with it
    step "train the critic (value)" "${launcher[@]}" scripts/train_value.py --config "$configs/value_critic.yaml" \
        --pretrain "$critic_model" --dataset "$dir/rewarded.jsonl" --save_path "$dir/value_critic" --seed "$seed" \
        "${training[@]}"
    candidates
    local precision=()
    [ "$gpus" != 0 ] || precision=(--nobf16)
    step "rank candidates (value)" python scripts/rank_best_of_n.py --config "$configs/value_ranking.yaml" \
        --model_id "$dir/value_critic" --input_path "$dir/candidates.jsonl" --output_path "$dir/ranked.jsonl" \
        "${precision[@]}"
}

log_ratio_critic() { # the same with the log-ratio critic
    critic critic pairs_with_c
    candidates
    rank "" "$dir/critic"
}

collect
grade --best_path "$dir/best.jsonl"
evaluate zero_shot "$agent"
runs="zero-shot=$dir/zero_shot.graded.jsonl" baselines="zero-shot"
for method in $methods; do
    case "$method" in
        rejection_fine_tuning)
            rejection_fine_tuning
            runs="$runs,rejection fine-tuning=$dir/rft.graded.jsonl" ;;
        multi_turn_dpo)
            multi_turn_dpo
            runs="$runs,multi-turn DPO=$dir/dpo.graded.jsonl" baselines="zero-shot,multi-turn DPO" ;;
        sweet)
            "${critic}_critic"
            policy
            runs="$runs,SWEET-RL=$dir/sweet.graded.jsonl" ;;
    esac
done
step "results" python scripts/compare_runs.py --runs "$runs" --baselines "$baselines" \
    --output_path "$dir/results.json" --markdown_path "$dir/results.md" --overwrite
