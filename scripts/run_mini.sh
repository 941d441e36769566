#!/usr/bin/env bash
# The whole method on two CPU cores, without a download: a tiny agent learns to ask a scripted human before it writes a
# function. About five minutes with the installation. Stopped at any point, the same command continues.
#
#   bash scripts/run_mini.sh                                 a table, and a page of everything, at the end
#   OUT=runs/more NUM_TRAIN=100 bash scripts/run_mini.sh     on more tasks; DRAW=201: on other tasks
#   OUT=runs/mine AGENT=FOLDER bash scripts/run_mini.sh      another agent (lab/mini_agents)
#   bash lab/reproduce/reproduce.sh table2                   several seeds; other tables and figures: docs/results.md
#
# `{ step ...; step ...; } &` is a lane: steps in turn, beside those of another lane (steps.sh).
# shellcheck disable=SC2086 # $TRAIN is several words or none
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "$0")/steps.sh"

SEED="${SEED:-0}" DRAW="${DRAW:-0}" NUM_TRAIN="${NUM_TRAIN:-50}" NUM_TEST="${NUM_TEST:-400}"
AGENT="${AGENT:-mini}" OUT="${OUT:-runs/mini}" TRAIN="${TRAIN_FLAGS:-}" # the packaged agent; where all is written
case "$OUT" in /*) ;; *) OUT="$PWD/$OUT" ;; esac
cd "$(dirname "$0")/.."
# shellcheck source-path=SCRIPTDIR source=environment.sh
source scripts/environment.sh
install "[train,plots]" sweet_rl transformers matplotlib
echo "20 steps, two at a time; what each prints is in ${OUT#"$PWD"/}/logs"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
printf '%5d s  environment\n' "$SECONDS"

evaluate() { # evaluate NAME MODEL: 8. Steps 1 and 2 on the test tasks.
    step "$1.test" python scripts/simulate_interactions.py --config configs/mini/evaluation.yaml --agent_model "$2" \
        --input_path "$OUT/tasks/test.jsonl" --output_path "$OUT/$1.test.jsonl" --seed "$SEED"
    step "$1.graded" python scripts/evaluate_code.py --input_path "$OUT/$1.test.jsonl" --output_path "$OUT/$1.graded.jsonl"
}

# 0. Tasks: a vague description, a reference solution, ten hidden test calls.
step tasks python scripts/make_mini_tasks.py --seed "$DRAW" --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" \
    --output_dir "$OUT/tasks"

{
    # 1. Dialogues of the untrained agent with the human.
    step trajectories python scripts/simulate_interactions.py --config configs/mini/collection.yaml --agent_model "$AGENT" \
        --input_path "$OUT/tasks/train.jsonl" --output_path "$OUT/trajectories.jsonl" --seed $((SEED + 1000))
    # 2. Rewards, and pairs of dialogues: as they were, and with the reference solution in front for the critic.
    step rewarded python scripts/evaluate_code.py --input_path "$OUT/trajectories.jsonl" --k 4 \
        --output_path "$OUT/rewarded.jsonl" --preference_path "$OUT/pairs.jsonl" \
        --ground_truth_preference_path "$OUT/pairs_with_c.jsonl"
    # 3. The critic: DPO on the dialogues with the reference solution.
    step critic python scripts/train_dpo.py --config configs/mini/critic.yaml --pretrain "$AGENT" \
        --dataset "$OUT/pairs_with_c.jsonl" --save_path "$OUT/critic" --seed "$SEED" $TRAIN
} & lane=$!
evaluate zero_shot "$AGENT" &
both $lane $!

{
    # 4. Candidates: what else the agent could have said at each turn.
    step candidates python scripts/sample_best_of_n.py --config configs/mini/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
        --input_path "$OUT/rewarded.jsonl" --output_path "$OUT/candidates.jsonl"
    # 5. Their order by the critic's advantage.
    step ranked python scripts/rank_best_of_n.py --config configs/mini/ranking.yaml --model_id "$OUT/critic" \
        --input_path "$OUT/candidates.jsonl" --output_path "$OUT/ranked.jsonl"
    # 6. Turn pairs: one of the better half over one of the worse half.
    step turn_pairs python scripts/generate_random_pairs_from_ranks.py --config configs/mini/turn_pairs.yaml --seed "$SEED" \
        --input_path "$OUT/ranked.jsonl" --output_path "$OUT/turn_pairs.jsonl"
    # 7. The policy of SWEET-RL: DPO on the turn pairs.
    step sweet python scripts/train_dpo.py --config configs/mini/actor.yaml --pretrain "$AGENT" \
        --dataset "$OUT/turn_pairs.jsonl" --save_path "$OUT/sweet" --seed "$SEED" $TRAIN
    evaluate sweet "$OUT/sweet"
} & lane=$!
{
    # Baselines: imitate the dialogues that succeeded; DPO on whole dialogues.
    step rft python scripts/train_sft.py --config configs/mini/rejection_fine_tuning.yaml --pretrain "$AGENT" \
        --dataset "$OUT/rewarded.jsonl" --save_path "$OUT/rft" --seed "$SEED" $TRAIN
    evaluate rft "$OUT/rft"
    step dpo python scripts/train_dpo.py --config configs/mini/multi_turn_dpo.yaml --pretrain "$AGENT" \
        --dataset "$OUT/pairs.jsonl" --save_path "$OUT/dpo" --seed "$SEED" $TRAIN
    evaluate dpo "$OUT/dpo"
} &
both $lane $!

# The comparison of the untrained agent (zero-shot) and the three trained ones, and a page with its table, its figure and dialogues.
python scripts/compare_runs.py --baselines "zero-shot,multi-turn DPO" --output_path "$OUT/results.json" --overwrite \
    --markdown_path "$OUT/results.md" --runs "zero-shot=$OUT/zero_shot.graded.jsonl,rejection fine-tuning=$OUT/rft.graded.jsonl,\
multi-turn DPO=$OUT/dpo.graded.jsonl,SWEET-RL=$OUT/sweet.graded.jsonl"
step report python visualizers/visualize_dialogue_histories.py --output "$OUT/report.html" --results "$OUT/results.json" \
    --input_path "$OUT/sweet.graded.jsonl" --limit 24 --overwrite \
    --critic "$OUT/critic" --reference seed_without_c
echo "The table is in $OUT/results.md; $OUT/report.html shows it, its figure and dialogues; $SECONDS s in all"
