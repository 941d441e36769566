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

hostname="" agent_hostname="" engine=auto gpus="" launcher="" seed=0 output=runs/backend dry_run=""
train_tasks=data/backend_tasks/train.jsonl test_tasks=data/backend_tasks/test.jsonl trajectories="" response_template=""
agent_model=meta-llama/Llama-3.1-8B-Instruct env_model=meta-llama/Llama-3.1-70B-Instruct num_tasks=""
methods="rejection_fine_tuning multi_turn_dpo sweet" agent_prompt_path="" user_prompt_path=""
known=" hostname agent_hostname engine gpus launcher seed output train_tasks test_tasks trajectories response_template \
agent_model env_model num_tasks methods agent_prompt_path user_prompt_path "

fail() { echo "run_backend.sh: $*" >&2; exit 2; }

while [ $# -gt 0 ]; do
    name="${1#--}"
    case "$1" in
        --dry_run) dry_run=1; shift ;;
        -h | --help) sed -n '2,/^set /s/^#\( \|$\)//p' "$0"; exit 0 ;;
        --*) [[ "$known" == *" $name "* ]] || fail "unknown option $1 (known:$known--dry_run)"
            [ $# -gt 1 ] || fail "$1 needs a value"
            printf -v "$name" %s "$2"; shift 2 ;;
        *) fail "$1 has no option before it" ;;
    esac
done
for method in $methods; do
    case "$method" in
        rejection_fine_tuning | multi_turn_dpo | sweet) ;;
        *) fail "unknown method $method (there are rejection_fine_tuning, multi_turn_dpo, sweet)" ;;
    esac
done
[ -n "$hostname" ] || [ "$env_model" = mini ] || [ -d "$env_model" ] || [ -n "$dry_run" ] ||
    fail "--hostname is missing: the server of the simulated human $env_model"

for file in train_tasks test_tasks trajectories agent_prompt_path user_prompt_path output; do
    # Paths are the caller's; a bare prompt name is one of the package's own.
    [ -z "${!file}" ] || [[ "$file" == *prompt* && ! -e "${!file}" ]] || printf -v "$file" %s "$(realpath -m "${!file}")"
done
for model in agent_model env_model; do [ ! -d "${!model}" ] || printf -v "$model" %s "$(realpath "${!model}")"; done
cd "$(dirname "$0")/.."

if [ -z "$gpus" ]; then
    gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l) || gpus=0
    [ -z "$dry_run" ] || [ "$gpus" != 0 ] || gpus=8
fi
if [ "$gpus" = 0 ]; then
    launcher="python" no_gpu="--zero_stage none --nobf16 --nogradient_checkpointing"
else
    launcher="${launcher:-torchrun --nproc_per_node $gpus}" no_gpu=""
fi
if [ -z "$dry_run" ]; then
    (cd / && python -c "import sweet_rl" 2>/dev/null) || fail "sweet_rl is not installed here: pip install -e '.[vllm,deepspeed]'"
    [ "$gpus" = 0 ] || python -c "import deepspeed" 2>/dev/null || fail "DeepSpeed is missing: pip install deepspeed"
    mkdir -p "$output"
fi

settings() { # settings FILE COMMAND: the lines of a configuration that no flag of the command overrides
    local key value
    while IFS=: read -r key value; do
        [[ "$key" == "#"* || "$2" =~ --(no)?$key( |$) ]] || echo "    $key:$value"
    done <"$1"
}

step() { # step NAME COMMAND...: says what is done, and does it unless --dry_run
    local name="$1" start=$SECONDS config=""
    shift
    echo "== $name"
    if [ -n "$dry_run" ]; then
        echo "\$ $(printf '%q ' "$@")"
        for word in "$@"; do
            [ "$config" != next ] || settings "$word" "$*"
            [ "$word" = --config ] && config=next || config=""
        done
    else
        "$@"
        echo "-- $name: $((SECONDS - start)) s"
    fi
}

paper=configs/paper/backend
[ -n "$num_tasks" ] && few=(--num_tasks "$num_tasks") || few=()
prompts=()
[ -z "$agent_prompt_path" ] || prompts+=(--agent_prompt_path "$agent_prompt_path")
[ -z "$user_prompt_path" ] || prompts+=(--user_prompt_path "$user_prompt_path")
human=(--env_model "$env_model")
[ -z "$hostname" ] || human+=(--hostname "$hostname")

agent_on() { # agent_on MODEL: sets `agent`, where the model is played: the untrained one on its server if there is one
    if [ "$1" = "$agent_model" ] && [ -n "$agent_hostname" ]; then
        agent=(--agent_model "$1" --agent_hostname "$agent_hostname")
    else
        agent=(--agent_model "$1" --agent_engine "$engine")
    fi
}

evaluate() { # evaluate NAME MODEL
    agent_on "$2"
    step "evaluate $1: dialogues" python scripts/simulate_interactions.py --config $paper/evaluation.yaml "${agent[@]}" \
        "${human[@]}" "${prompts[@]}" "${few[@]}" --input_path "$test_tasks" --output_path "$output/$1.test.jsonl" \
        --seed "$seed"
    step "evaluate $1: grades" python scripts/evaluate_code.py --input_path "$output/$1.test.jsonl" \
        --output_path "$output/$1.graded.jsonl"
}

train() { # train NAME SCRIPT CONFIG DATASET SAVE_PATH [OPTIONS...]
    # shellcheck disable=SC2086  # launcher and no_gpu are several words
    step "train $1" $launcher "scripts/$2.py" --config "$paper/$3.yaml" --pretrain "$agent_model" --dataset "$4" \
        --save_path "$5" "${@:6}" --seed "$seed" $no_gpu
}

if [ -z "$trajectories" ]; then
    trajectories="$output/trajectories.jsonl"
    agent_on "$agent_model"
    step "collect trajectories" python scripts/simulate_interactions.py --config $paper/collection.yaml "${agent[@]}" \
        "${human[@]}" "${prompts[@]}" "${few[@]}" --input_path "$train_tasks" --output_path "$trajectories" \
        --seed "$((seed + 1000))"
fi

[ -z "$response_template" ] && texts=() || texts=(--response_template "$response_template")
step "grade and pair trajectories" python scripts/evaluate_code.py --input_path "$trajectories" \
    --output_path "$output/rewarded.jsonl" --preference_path "$output/pairs.jsonl" \
    --ground_truth_preference_path "$output/pairs_with_c.jsonl" --tokenizer "$agent_model" "${texts[@]}" "${few[@]}"

evaluate zero_shot "$agent_model"
runs="zero-shot=$output/zero_shot.graded.jsonl" baselines="zero-shot"

if [[ " $methods " == *" rejection_fine_tuning "* ]]; then
    train "rejection fine-tuning" train_sft rejection_fine_tuning "$output/rewarded.jsonl" "$output/rft" \
        "${texts[@]}"
    evaluate rft "$output/rft"
    runs="$runs,rejection fine-tuning=$output/rft.graded.jsonl"
fi

if [[ " $methods " == *" multi_turn_dpo "* ]]; then
    train "multi-turn DPO" train_dpo multi_turn_dpo "$output/pairs.jsonl" "$output/dpo"
    evaluate dpo "$output/dpo"
    runs="$runs,multi-turn DPO=$output/dpo.graded.jsonl" baselines="zero-shot,multi-turn DPO"
fi

if [[ " $methods " == *" sweet "* ]]; then
    train "the critic" train_dpo critic "$output/pairs_with_c.jsonl" "$output/critic"
    [ -z "$agent_hostname" ] && sampler=(--engine "$engine") || sampler=(--hostname "$agent_hostname")
    step "sample candidates" python scripts/sample_best_of_n.py --config $paper/sampling.yaml --model_id "$agent_model" \
        "${sampler[@]}" --input_path "$output/rewarded.jsonl" --output_path "$output/candidates.jsonl" --seed "$seed"
    [ "$gpus" = 0 ] && precision=(--nobf16) || precision=()
    step "rank candidates" python scripts/rank_best_of_n.py --config $paper/ranking.yaml --model_id "$output/critic" \
        --reference_model_id "$agent_model" --input_path "$output/candidates.jsonl" \
        --output_path "$output/ranked.jsonl" "${precision[@]}"
    step "turn pairs" python scripts/generate_random_pairs_from_ranks.py --config $paper/turn_pairs.yaml \
        --input_path "$output/ranked.jsonl" --output_path "$output/turn_pairs.jsonl" --seed "$seed"
    train "SWEET-RL" train_dpo actor "$output/turn_pairs.jsonl" "$output/sweet"
    evaluate sweet "$output/sweet"
    runs="$runs,SWEET-RL=$output/sweet.graded.jsonl"
fi

step "results" python scripts/compare_runs.py --runs "$runs" --baselines "$baselines" \
    --output_path "$output/results.json" --markdown_path "$output/results.md" --overwrite
