#!/usr/bin/env bash
# The method on a small world of web pages, one seed: a tiny agent draws pages, a scripted designer says what differs.
# It needs a browser; a quarter of an hour on two cores. Stopped at any point, the same command continues.
#
#   bash lab/pages/run.sh                              the tables are printed at the end
#   SEED=1 OUT=runs/pages/seed1 bash lab/pages/run.sh  another seed
#   bash lab/pages/run.sh --smoke                      every step on a handful of tasks
set -euo pipefail

SEED="${SEED:-0}" NUM_TRAIN=200 NUM_TEST=200 SAMPLE=() PAIRS=() GAP=()
OUT="$(realpath -m "${OUT:-runs/pages${1:+-smoke}}")" # where everything is written
case "$*" in
    "") ;;
    --smoke) NUM_TRAIN=8 NUM_TEST=4 SAMPLE=(--data_fraction 0.3 --best_of_n 4) PAIRS=(--num_pairs 1) GAP=(--min_gap 0.001) ;;
    *) echo "run.sh: unknown option $* (there is --smoke)" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[frontend]" sweet_rl selenium efficientnet_lite_pytorch
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
AGENT=lab/pages/agent CONFIGS=lab/pages/configs

# 0. Tasks: a vague wish, and the page that the client has in mind.
python -m lab.pages.make_page_tasks --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" --output_dir "$OUT/tasks"
# 1. Dialogues of the untrained agent with the designer.
python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml --agent_model $AGENT \
    --input_path "$OUT/tasks/train.jsonl" --output_path "$OUT/trajectories.jsonl" --seed $((SEED + 1000))
# 2. Rewards by the likeness of the pages; pairs of dialogues, and the best dialogue of each task.
python scripts/evaluate_html.py --config $CONFIGS/grading.yaml --input_path "$OUT/trajectories.jsonl" --k 4 "${GAP[@]}" \
    --output_path "$OUT/rewarded.jsonl" --best_path "$OUT/best.jsonl" \
    --preference_path "$OUT/pairs.jsonl" --ground_truth_preference_path "$OUT/pairs_with_c.jsonl"

# Baselines: imitate the best dialogues; DPO on whole dialogues.
python scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --pretrain $AGENT \
    --dataset "$OUT/best.jsonl" --save_path "$OUT/rft" --seed "$SEED"
python scripts/train_dpo.py --config $CONFIGS/multi_turn_dpo.yaml --pretrain $AGENT \
    --dataset "$OUT/pairs.jsonl" --save_path "$OUT/dpo" --seed "$SEED"

# 3. The critic: DPO on the dialogues with the reference page.
python scripts/train_dpo.py --config $CONFIGS/critic.yaml --pretrain $AGENT \
    --dataset "$OUT/pairs_with_c.jsonl" --save_path "$OUT/critic" --seed "$SEED"
# 4. Candidates: what else the agent could have drawn at each turn.
python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id $AGENT --seed "$SEED" \
    --input_path "$OUT/rewarded.jsonl" --output_path "$OUT/candidates.jsonl" "${SAMPLE[@]}"
# 5. Their order by the critic.
python scripts/rank_best_of_n.py --config $CONFIGS/ranking.yaml --model_id "$OUT/critic" \
    --input_path "$OUT/candidates.jsonl" --output_path "$OUT/ranked.jsonl"
# 6 and 7. Turn pairs, and the policy that is trained on them.
python scripts/generate_random_pairs_from_ranks.py --config $CONFIGS/turn_pairs.yaml --seed "$SEED" \
    --input_path "$OUT/ranked.jsonl" --output_path "$OUT/turn_pairs.jsonl" "${PAIRS[@]}"
python scripts/train_dpo.py --config $CONFIGS/actor.yaml --pretrain $AGENT \
    --dataset "$OUT/turn_pairs.jsonl" --save_path "$OUT/sweet" --seed "$SEED"

# 8. Steps 1 and 2 on the test tasks; the comparison of the agents.
for name in zero_shot rft dpo sweet; do
    run="$OUT/$name" model="$OUT/$name"
    [ "$name" != zero_shot ] || model=$AGENT
    python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml --agent_model "$model" \
        --input_path "$OUT/tasks/test.jsonl" --output_path "$run.test.jsonl" --seed "$SEED"
    python scripts/evaluate_html.py --config $CONFIGS/grading.yaml --input_path "$run.test.jsonl" --output_path "$run.graded.jsonl"
done
python scripts/compare_runs.py --baselines "zero-shot,multi-turn DPO" --output_path "$OUT/pages.json" --overwrite \
    --markdown_path "$OUT/pages.md" --chains "SWEET-RL>multi-turn DPO>rejection fine-tuning>zero-shot" \
    --runs "zero-shot=$OUT/zero_shot.graded.jsonl,rejection fine-tuning=$OUT/rft.graded.jsonl,\
multi-turn DPO=$OUT/dpo.graded.jsonl,SWEET-RL=$OUT/sweet.graded.jsonl"
echo "written: $OUT/pages.md; $SECONDS s in all"
