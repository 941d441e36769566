#!/usr/bin/env bash
# Trains an agent that learns to ask, on two CPU cores and without a download: zero-shot, rejection fine-tuning,
# multi-turn DPO and SWEET-RL on the mini tasks, all evaluated on the same held-out tasks.
#
#   bash scripts/run_mini.sh                    # one seed; results.json, results.md and the table at the end
#   bash scripts/run_mini.sh --seeds "0 1 2"    # several seeds, one table
#   bash scripts/run_mini.sh --smoke            # every step on a handful of tasks
#   bash scripts/run_mini.sh --credit           # also: how well the critic credits turns, with and without c
#
# Other options: --output DIR (default runs/mini, or runs/mini-smoke). Stopped at any point, the same command
# continues: finished steps are passed over and a half-done one goes on where it was.
# The virtual environment is .venv, or the folder that SWEET_RL_VENV names.
set -euo pipefail

seeds="0" output="" smoke="" credit=""
while [ $# -gt 0 ]; do
    case "$1" in
        --seeds) seeds="${2:?--seeds needs a list such as \"0 1 2\"}"; shift 2 ;;
        --output) output="$(realpath -m "${2:?--output needs a folder}")"; shift 2 ;;
        --smoke) smoke=1; shift ;;
        --credit) credit=1; shift ;;
        *) echo "run_mini.sh: unknown option $1 (there are --seeds, --output, --smoke, --credit)" >&2; exit 2 ;;
    esac
done

cd "$(dirname "$0")/.."
source scripts/environment.sh
python -c "import sweet_rl, transformers, fire" 2>/dev/null || pip_install -c constraints.txt -e .
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

num_train=500 num_test=400 dialogues=4 fraction=0.4 candidates=16
if [ -n "$smoke" ]; then
    num_train=24 num_test=16 dialogues=4 fraction=0.2 candidates=4
fi
out="${output:-runs/mini${smoke:+-smoke}}"
mkdir -p "$out"

step() { # step NAME COMMAND...: says what is done and how long it took
    local name="$1" start=$SECONDS
    shift
    echo "== $name"
    "$@"
    echo "-- $name: $((SECONDS - start)) s"
}

play() { # play MODEL TASKS OUTPUT SEED DIALOGUES
    python scripts/simulate_interactions.py --config configs/mini/collect.yaml --agent_model "$1" \
        --input_path "$2" --output_path "$3" --seed "$4" --best_of_n "$5"
}

evaluate() { # evaluate NAME MODEL FOLDER SEED: dialogues on the held-out tasks, and their grades
    step "evaluate $1: dialogues" play "$2" "$out/tasks/test.jsonl" "$3/$1.test.jsonl" "$4" 1
    step "evaluate $1: grades" python scripts/evaluate_code.py \
        --input_path "$3/$1.test.jsonl" --output_path "$3/$1.graded.jsonl"
}

rank() { # rank FOLDER CRITIC OUTPUT [OPTIONS...]
    python scripts/rank_best_of_n.py --model_id "$2" --reference_model_id "$agent" \
        --input_path "$1/candidates.jsonl" --output_path "$3" "${@:4}"
}

agent=sweet_rl/mini/agent
step "tasks" python scripts/make_mini_tasks.py --num_train $num_train --num_test $num_test --output_dir "$out/tasks"

for seed in $seeds; do
    dir="$out/seed$seed"
    mkdir -p "$dir"
    train="python scripts/train_dpo.py --pretrain $agent --seed $seed"

    evaluate zero_shot "$agent" "$dir" "$seed"

    step "collect" play "$agent" "$out/tasks/train.jsonl" "$dir/trajectories.jsonl" "$((seed + 1000))" $dialogues
    step "grade, pair" python scripts/evaluate_code.py --input_path "$dir/trajectories.jsonl" \
        --output_path "$dir/rewarded.jsonl" --preference_path "$dir/pairs.jsonl" \
        --ground_truth_preference_path "$dir/pairs_with_c.jsonl" --k $dialogues

    step "train rejection fine-tuning" python scripts/train_sft.py --config configs/mini/rejection_fine_tuning.yaml \
        --pretrain "$agent" --dataset "$dir/rewarded.jsonl" --save_path "$dir/rft" --seed "$seed"
    evaluate rft "$dir/rft" "$dir" "$seed"

    step "train multi-turn DPO" $train --config configs/mini/multi_turn_dpo.yaml \
        --dataset "$dir/pairs.jsonl" --save_path "$dir/dpo"
    evaluate dpo "$dir/dpo" "$dir" "$seed"

    step "train the critic" $train --config configs/mini/critic.yaml \
        --dataset "$dir/pairs_with_c.jsonl" --save_path "$dir/critic"
    step "sample candidates" python scripts/sample_best_of_n.py --model_id "$agent" \
        --data_path "$dir/rewarded.jsonl" --save_path "$dir/candidates.jsonl" --data_fraction $fraction \
        --best_of_n $candidates --max_tokens 100 --seed "$seed"
    step "rank candidates" rank "$dir" "$dir/critic" "$dir/ranked.jsonl"
    step "turn pairs" python scripts/generate_random_pairs_from_ranks.py --input_path "$dir/ranked.jsonl" \
        --output_path "$dir/turn_pairs.jsonl" --num_pairs 4 --seed "$seed"
    step "train SWEET-RL" $train --config configs/mini/actor.yaml \
        --dataset "$dir/turn_pairs.jsonl" --save_path "$dir/sweet"
    evaluate sweet "$dir/sweet" "$dir" "$seed"

    if [ -n "$credit" ]; then
        step "train a critic without c" $train --config configs/mini/critic.yaml \
            --dataset "$dir/pairs.jsonl" --save_path "$dir/critic_without_c"
        step "rank without c" rank "$dir" "$dir/critic_without_c" "$dir/ranked_without_c.jsonl" --no_prompt
        step "rank with the seed model alone" rank "$dir" "$agent" "$dir/ranked_untrained.jsonl" --reference sampled
        step "rank with the released reference" rank "$dir" "$dir/critic" "$dir/ranked_sampled.jsonl" --reference sampled
        python scripts/measure_mini_credit.py --output_path "$dir/credit.json" --overwrite --runs \
"critic=$dir/ranked.jsonl,critic (sampled reference)=$dir/ranked_sampled.jsonl,\
untrained (sampled reference)=$dir/ranked_untrained.jsonl,critic without c=$dir/ranked_without_c.jsonl"
    fi
done

files() { # files NAME: the graded files of a method, one a seed, joined by +
    local joined=""
    for seed in $seeds; do joined="$joined${joined:++}$out/seed$seed/$1.graded.jsonl"; done
    echo "$joined"
}
echo "== results on $num_test held-out tasks, seeds: $seeds"
python scripts/compare_runs.py --overwrite --output_path "$out/results.json" --markdown_path "$out/results.md" \
    --baselines "zero-shot,multi-turn DPO" --runs \
"zero-shot=$(files zero_shot),rejection fine-tuning=$(files rft),multi-turn DPO=$(files dpo),SWEET-RL=$(files sweet)"
echo "written: $out/results.json, $out/results.md; $SECONDS s in all"
