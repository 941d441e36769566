#!/usr/bin/env bash
# The study of critics for one seed: which critic's ranking agrees with the oracle, and which policy comes of it? Every
# step continues what it has begun. In results/ there are seeds 0 to 4 of the hard world, joined by `+` in --studies.
#
#   bash lab/critics/run.sh                          the hard world, seed 0
#   WORLD=quick SEED=1 bash lab/critics/run.sh
set -euo pipefail

WORLD="${WORLD:-hard}" SEED="${SEED:-0}"
OUT="$(realpath -m "${OUT:-runs/critics-$WORLD}")" # where everything is written
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[workflow]" sweet_rl transformers doit
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
case "$WORLD" in
    hard) AGENT=mini_hard TASKS=(--world hard --seed 1 --num_train 200) ;;
    quick) AGENT=mini TASKS=(--num_train 200) ;;
    *) echo "run.sh: WORLD is $WORLD; there are hard and quick" >&2 && exit 2 ;;
esac
CONFIGS=configs/$AGENT
HUMAN='"env_model": "mini", "task_type": "mini"'

# Steps 1 to 4 of the method, and SWEET-RL, as in dodo.py.
export WORLD SEED OUT
SEEDS=1 doit "steps:seed$SEED/sweet.graded.jsonl"
RUN="$OUT/seed$SEED"

# Critics without training, on the candidates of the policy.
python -m lab.critics.study_credit --model_id "$AGENT" --input_path "$RUN/candidates.jsonl" \
    --output_path "$RUN/study_0.jsonl" --env_model mini --task_type mini
# Critics that are trained on 48, 200 and 800 dialogues of 12, 50 and 200 tasks.
python scripts/make_mini_tasks.py "${TASKS[@]}" --num_test 1 --output_dir "$OUT/tasks_study"
python scripts/simulate_interactions.py --config "$CONFIGS"/collection.yaml --agent_model "$AGENT" --seed $((SEED + 1000)) \
    --input_path "$OUT/tasks_study/train.jsonl" --output_path "$RUN/study/trajectories.jsonl"
for tasks in 12 50 200; do
    part="$RUN/study/first_${tasks}_tasks"
    python scripts/evaluate_code.py --input_path "$RUN/study/trajectories.jsonl" --output_path "$part/rewarded.jsonl" \
        --k 4 --num_tasks $tasks --preference_path "$part/pairs.jsonl" \
        --ground_truth_preference_path "$part/pairs_with_c.jsonl"
    python scripts/train_dpo.py --config "$CONFIGS"/critic.yaml --pretrain "$AGENT" --seed "$SEED" \
        --dataset "$part/pairs_with_c.jsonl" --save_path "$part/critic"
    python -m lab.critics.study_credit --model_id "$part/critic" --reference_model_id "$AGENT" \
        --input_path "$RUN/candidates.jsonl" --output_path "$part/study.jsonl"
done
python -m lab.critics.measure_study --output_path "$RUN/study.json" --markdown_path "$RUN/study.md" --overwrite \
    --studies "0=$RUN/study_0.jsonl,48=$RUN/study/first_12_tasks/study.jsonl,\
200=$RUN/study/first_50_tasks/study.jsonl,800=$RUN/study/first_200_tasks/study.jsonl"

# Policies of four critics: steps 5 to 8.
policy() { # policy NAME FLAGS of rank_best_of_n.py
    python scripts/rank_best_of_n.py --input_path "$RUN/candidates.jsonl" --output_path "$RUN/ranked_$1.jsonl" "${@:2}"
    python scripts/generate_random_pairs_from_ranks.py --config "$CONFIGS"/turn_pairs.yaml --seed "$SEED" \
        --input_path "$RUN/ranked_$1.jsonl" --output_path "$RUN/turn_pairs_$1.jsonl"
    python scripts/train_dpo.py --config "$CONFIGS"/actor.yaml --pretrain "$AGENT" --seed "$SEED" \
        --dataset "$RUN/turn_pairs_$1.jsonl" --save_path "$RUN/sweet_$1"
    python scripts/simulate_interactions.py --config "$CONFIGS"/evaluation.yaml --agent_model "$RUN/sweet_$1" \
        --input_path "$OUT/tasks/test.jsonl" --output_path "$RUN/sweet_$1.test.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$RUN/sweet_$1.test.jsonl" --output_path "$RUN/sweet_$1.graded.jsonl"
}
policy pmi_belief --critic_type lab/critics/pmi_belief.py \
    --critic_settings "{\"model_id\": \"$AGENT\", \"normalize\": \"none\", $HUMAN}"
policy belief_reply --critic_type lab/critics/belief_gain.py --critic_settings "{\"model_id\": \"$AGENT\", $HUMAN}"
policy pmi_sum --critic_type pmi --model_id "$AGENT" --critic_settings '{"normalize": "none"}'
policy critic_sum --config "$CONFIGS"/ranking.yaml --model_id "$RUN/critic" --normalize none
python scripts/compare_runs.py --baselines SWEET-RL --output_path "$RUN/policies.json" --overwrite \
    --markdown_path "$RUN/policies.md" --runs "SWEET-RL=$RUN/sweet.graded.jsonl,\
pmi and belief gain (sum)=$RUN/sweet_pmi_belief.graded.jsonl,belief gain (mean)=$RUN/sweet_belief_reply.graded.jsonl,\
pmi (sum)=$RUN/sweet_pmi_sum.graded.jsonl,SWEET critic (sum)=$RUN/sweet_critic_sum.graded.jsonl"
