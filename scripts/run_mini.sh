#!/usr/bin/env bash
# The whole method on two CPU cores, without a download: a tiny agent learns to ask a scripted human before it writes a
# function. Four to eight minutes with the installation. Stopped at any point, the same command continues.
#
#   bash scripts/run_mini.sh                                 the table is printed at the end
#   OUT=runs/more NUM_TRAIN=100 bash scripts/run_mini.sh     on more tasks; AGENT=FOLDER: an agent of make_mini_agent.py
#   bash scripts/run_mini.sh --smoke                         every step on a handful of tasks
#   bash scripts/reproduce.sh table2                         several seeds; other tables and figures: docs/reproduce.md
set -euo pipefail

SEED="${SEED:-0}" NUM_TRAIN="${NUM_TRAIN:-50}" NUM_TEST=400 AGENT="${AGENT:-mini}" # the packaged agent
OUT="$(realpath -m "${OUT:-runs/mini${1:+-smoke}}")" TRAIN=() SAMPLE=() PAIRS=() # where all is written; more flags
case "$*" in
    "") ;;
    --smoke) NUM_TRAIN=16 NUM_TEST=8 TRAIN=(--max_epochs 1) SAMPLE=(--data_fraction 0.1 --best_of_n 4) PAIRS=(--num_pairs 1) ;;
    *) echo "run_mini.sh: unknown option $* (there is --smoke)" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/.."
# shellcheck source-path=SCRIPTDIR source=environment.sh
source scripts/environment.sh
install "" sweet_rl
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 # so small a model gains nothing from more threads

# 0. Tasks: a vague description, a reference solution, ten hidden test calls.
python scripts/make_mini_tasks.py --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" --output_dir "$OUT/tasks"
# 1. Dialogues of the untrained agent with the human.
python scripts/simulate_interactions.py --config configs/mini/collection.yaml --agent_model "$AGENT" \
    --input_path "$OUT/tasks/train.jsonl" --output_path "$OUT/trajectories.jsonl" --seed $((SEED + 1000))
# 2. Rewards, and pairs of dialogues: as they were, and with the reference solution in front for the critic.
python scripts/evaluate_code.py --input_path "$OUT/trajectories.jsonl" --output_path "$OUT/rewarded.jsonl" --k 4 \
    --preference_path "$OUT/pairs.jsonl" --ground_truth_preference_path "$OUT/pairs_with_c.jsonl"

# Baselines: imitate the dialogues that succeeded; DPO on whole dialogues.
python scripts/train_sft.py --config configs/mini/rejection_fine_tuning.yaml --pretrain "$AGENT" \
    --dataset "$OUT/rewarded.jsonl" --save_path "$OUT/rft" --seed "$SEED" "${TRAIN[@]}"
python scripts/train_dpo.py --config configs/mini/multi_turn_dpo.yaml --pretrain "$AGENT" \
    --dataset "$OUT/pairs.jsonl" --save_path "$OUT/dpo" --seed "$SEED" "${TRAIN[@]}"

# 3. The critic: DPO on the dialogues with the reference solution.
python scripts/train_dpo.py --config configs/mini/critic.yaml --pretrain "$AGENT" \
    --dataset "$OUT/pairs_with_c.jsonl" --save_path "$OUT/critic" --seed "$SEED" "${TRAIN[@]}"
# 4. Candidates: what else the agent could have said at each turn.
python scripts/sample_best_of_n.py --config configs/mini/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$OUT/rewarded.jsonl" --output_path "$OUT/candidates.jsonl" "${SAMPLE[@]}"
# 5. Their order by the critic's advantage.
python scripts/rank_best_of_n.py --config configs/mini/ranking.yaml --model_id "$OUT/critic" \
    --input_path "$OUT/candidates.jsonl" --output_path "$OUT/ranked.jsonl"
# 6. Turn pairs: one of the better half over one of the worse half.
python scripts/generate_random_pairs_from_ranks.py --config configs/mini/turn_pairs.yaml --seed "$SEED" \
    --input_path "$OUT/ranked.jsonl" --output_path "$OUT/turn_pairs.jsonl" "${PAIRS[@]}"
# 7. The policy of SWEET-RL: DPO on the turn pairs.
python scripts/train_dpo.py --config configs/mini/actor.yaml --pretrain "$AGENT" \
    --dataset "$OUT/turn_pairs.jsonl" --save_path "$OUT/sweet" --seed "$SEED" "${TRAIN[@]}"

# 8. Steps 1 and 2 on the test tasks, for the untrained agent (zero-shot) and the three trained ones; their comparison.
for name in zero_shot rft dpo sweet; do
    run="$OUT/$name" model="$AGENT"
    [ "$name" = zero_shot ] || model="$run"
    python scripts/simulate_interactions.py --config configs/mini/evaluation.yaml --agent_model "$model" \
        --input_path "$OUT/tasks/test.jsonl" --output_path "$run.test.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$run.test.jsonl" --output_path "$run.graded.jsonl"
done
python scripts/compare_runs.py --baselines "zero-shot,multi-turn DPO" --output_path "$OUT/results.json" --overwrite \
    --markdown_path "$OUT/results.md" --runs "zero-shot=$OUT/zero_shot.graded.jsonl,rejection fine-tuning=$OUT/rft.graded.jsonl,\
multi-turn DPO=$OUT/dpo.graded.jsonl,SWEET-RL=$OUT/sweet.graded.jsonl"
echo "written: $OUT/results.json, $OUT/results.md; $SECONDS s in all"
