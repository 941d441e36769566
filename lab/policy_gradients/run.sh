#!/usr/bin/env bash
# Policy gradients and the methods of Table 2 in rounds, one seed: each method collects new dialogues with its own policy,
# learns from them, and begins the next round with the policy that it has become. All collect equally many dialogues.
# Every step continues what it has begun.
#
#   bash lab/policy_gradients/run.sh                              the hard world, two rounds
#   WORLD=quick ROUNDS=4 SEED=1 bash lab/policy_gradients/run.sh
#   bash lab/policy_gradients/run.sh --smoke                      every step on a handful of tasks
set -euo pipefail

WORLD="${WORLD:-hard}" SEED="${SEED:-0}" ROUNDS="${ROUNDS:-2}"
OUT="$(realpath -m "${OUT:-runs/policy_gradients-$WORLD${1:+-smoke}}")" # where everything is written
NUM_TRAIN=50 NUM_TEST=400 TRAIN=() SAMPLE=() PAIRS=()
case "$*" in
    "") ;;
    --smoke) NUM_TRAIN=16 NUM_TEST=8 TRAIN=(--max_epochs 1) SAMPLE=(--data_fraction 0.1 --best_of_n 4) PAIRS=(--num_pairs 1) ;;
    *) echo "run.sh: unknown option $* (there is --smoke)" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train,plots]" sweet_rl transformers matplotlib
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
case "$WORLD" in
    hard) AGENT=mini_hard TASKS=(--world hard --seed 1) ;;
    quick) AGENT=mini TASKS=() ;;
    *) echo "run.sh: WORLD is $WORLD; there are hard and quick" >&2 && exit 2 ;;
esac
CONFIGS=configs/$AGENT POLICY_GRADIENT=lab/policy_gradients/configs/$AGENT.yaml

collect() { # collect FOLDER POLICY: steps 1 and 2 on the training tasks
    python -m lab.policy_gradients.collect --config "$CONFIGS"/collection.yaml --agent_model "$2" \
        --input_path "$OUT/tasks/train.jsonl" --output_path "$1/trajectories.jsonl" --seed $((SEED + 1000))
    python scripts/evaluate_code.py --input_path "$1/trajectories.jsonl" --output_path "$1/rewarded.jsonl" --k 4 \
        --preference_path "$1/pairs.jsonl" --ground_truth_preference_path "$1/pairs_with_c.jsonl"
}
learn() { # learn METHOD FOLDER POLICY: the policy of a method, FOLDER/METHOD
    local start=(--pretrain "$3" --seed "$SEED" --save_path "$2/$1" "${TRAIN[@]}")
    case "$1" in
        rft) python scripts/train_sft.py --config "$CONFIGS"/rejection_fine_tuning.yaml "${start[@]}" --dataset "$2/rewarded.jsonl" ;;
        dpo) python scripts/train_dpo.py --config "$CONFIGS"/multi_turn_dpo.yaml "${start[@]}" --dataset "$2/pairs.jsonl" ;;
        grpo) python -m lab.policy_gradients.train_policy_gradient --config "$POLICY_GRADIENT" "${start[@]}" --dataset "$2/rewarded.jsonl" ;;
        grpo_credit) # the weight of a turn: the log-ratio of the policy itself with the reference solution
            python scripts/score_turns.py --config "$CONFIGS"/ranking.yaml --model_id "$3" \
                --input_path "$2/rewarded.jsonl" --output_path "$2/credited.jsonl"
            python -m lab.policy_gradients.train_policy_gradient --config "$POLICY_GRADIENT" "${start[@]}" \
                --dataset "$2/credited.jsonl" --turn_weight 0.5
            ;;
        sweet) # steps 3 to 7
            python scripts/train_dpo.py --config "$CONFIGS"/critic.yaml --pretrain "$3" --seed "$SEED" "${TRAIN[@]}" \
                --dataset "$2/pairs_with_c.jsonl" --save_path "$2/critic"
            python scripts/sample_best_of_n.py --config "$CONFIGS"/sampling.yaml --model_id "$3" --seed "$SEED" \
                --input_path "$2/rewarded.jsonl" --output_path "$2/candidates.jsonl" "${SAMPLE[@]}"
            python scripts/rank_best_of_n.py --config "$CONFIGS"/ranking.yaml --model_id "$2/critic" \
                --input_path "$2/candidates.jsonl" --output_path "$2/ranked.jsonl"
            python scripts/generate_random_pairs_from_ranks.py --config "$CONFIGS"/turn_pairs.yaml --seed "$SEED" \
                --input_path "$2/ranked.jsonl" --output_path "$2/turn_pairs.jsonl" "${PAIRS[@]}"
            python scripts/train_dpo.py --config "$CONFIGS"/actor.yaml "${start[@]}" --dataset "$2/turn_pairs.jsonl"
            ;;
    esac
}
evaluate() { # evaluate PATH POLICY: step 8
    python scripts/simulate_interactions.py --config "$CONFIGS"/evaluation.yaml --agent_model "$2" \
        --input_path "$OUT/tasks/test.jsonl" --output_path "$1.test.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$1.test.jsonl" --output_path "$1.graded.jsonl"
}

python scripts/make_mini_tasks.py "${TASKS[@]}" --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" --output_dir "$OUT/tasks"
evaluate "$OUT/zero_shot" "$AGENT"
collect "$OUT/round1" "$AGENT" # the first round is the same for all
runs=""
for method in rft dpo sweet grpo grpo_credit; do
    policy=$AGENT runs="$runs,$method@0=$OUT/zero_shot.graded.jsonl"
    for round in $(seq "$ROUNDS"); do
        folder="$OUT/round${round}_$method"
        if [ "$round" = 1 ]; then folder="$OUT/round1"; else collect "$folder" "$policy"; fi
        learn $method "$folder" "$policy"
        policy="$folder/$method"
        evaluate "$policy" "$policy"
        runs="$runs,$method@$((round * NUM_TRAIN * 4))=$policy.graded.jsonl"
    done
done
python scripts/compare_runs.py --output_path "$OUT/online.json" --markdown_path "$OUT/online.md" --overwrite --runs "${runs#,}"
python visualizers/plot_results.py --kind curves --results "$OUT/online.json" --output_path "$OUT/online" \
    --x_label dialogues --title "Success against dialogues, in rounds"
