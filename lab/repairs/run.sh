#!/usr/bin/env bash
# Repairs of the paper's reference and of half over half, one seed: steps 1 to 5 of the method, then a policy for each
# order of the candidates and each rule of step 6. About a quarter of an hour on one core. Stopped, it continues.
#
#   bash lab/repairs/run.sh                                                the quick world, seed 0
#   WORLD=hard SEED=1 POLICIES="paper paper-answers" bash lab/repairs/run.sh
#   WORLD=untaught AGENT=runs/untaught/agent bash lab/repairs/run.sh       an agent of lab/pretraining/shares.sh
#   NUM_TRAIN=8 NUM_TEST=4 bash lab/repairs/run.sh                         every step on a handful of tasks
set -euo pipefail

WORLD="${WORLD:-quick}" SEED="${SEED:-0}" NUM_TRAIN="${NUM_TRAIN:-50}" NUM_TEST="${NUM_TEST:-400}"
POLICIES="${POLICIES:-paper paper-answers release release-answers random-answers release-gap}"
OUT="$(realpath -m "${OUT:-runs/repairs}")/$WORLD"
RUN="$OUT/seed$SEED"
case "$WORLD" in
    hard) AGENT="${AGENT:-mini_hard}" CONFIGS=configs/mini_hard TASKS="--world hard --seed 1" ;;
    *) AGENT="${AGENT:-mini}" CONFIGS=configs/mini TASKS="" ;;
esac
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

# Steps 1 to 4.
# shellcheck disable=SC2086 # TASKS is several words or none
python scripts/make_mini_tasks.py $TASKS --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" --output_dir "$OUT/tasks"
python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml --agent_model "$AGENT" \
    --input_path "$OUT/tasks/train.jsonl" --output_path "$RUN/trajectories.jsonl" --seed $((SEED + 1000))
python scripts/evaluate_code.py --input_path "$RUN/trajectories.jsonl" --k 4 --output_path "$RUN/rewarded.jsonl" \
    --ground_truth_preference_path "$RUN/pairs_with_c.jsonl" >/dev/null
case "$POLICIES" in # the other policies need no critic
    *paper* | *release*)
        python scripts/train_dpo.py --config $CONFIGS/critic.yaml --pretrain "$AGENT" --dataset "$RUN/pairs_with_c.jsonl" \
            --save_path "$RUN/critic" --seed "$SEED"
        ;;
esac
python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$RUN/rewarded.jsonl" --output_path "$RUN/candidates.jsonl"
python scripts/grade_candidates.py --task_type mini --input_path "$RUN/candidates.jsonl" \
    --output_path "$RUN/graded_candidates.jsonl"
for policy in $POLICIES; do
    began=$SECONDS order="${policy%-*}" rule="${policy#*-}" pairs="$RUN/turn_pairs_$policy.jsonl"
    # 5. The paper's reference, the release's, the seed model in the place of the critic, the hidden rules, or chance.
    case "$order" in
        paper) how=(--model_id "$RUN/critic" --normalize turn --reference seed --reference_model_id "$AGENT") ;;
        release) how=(--model_id "$RUN/critic" --normalize turn --reference sampled) ;;
        untrained) how=(--model_id "$AGENT" --normalize turn --reference sampled) ;;
        oracle) how=(--critic_type lab/repairs/oracle.py) ;;
        random) how=(--critic_type lab/repairs/chance.py --critic_settings "{\"seed\": $SEED}") ;;
    esac
    [ "$rule" != answers ] || how+=(--place_answers)
    ranked="$RUN/ranked_$policy.jsonl"
    python scripts/rank_best_of_n.py "${how[@]}" --input_path "$RUN/graded_candidates.jsonl" --output_path "$ranked"
    # 6. One of the better half over one of the worse, or pairs by a gap of scores.
    [ "$rule" = gap ] || rule=halves
    python scripts/generate_random_pairs_from_ranks.py --config $CONFIGS/turn_pairs.yaml --rule "$rule" --seed "$SEED" \
        --input_path "$ranked" --output_path "$pairs"
    # 7 and 8, with the settings of SWEET-RL; `chosen` imitates the chosen texts, with its learning rate and steps.
    case "$policy" in
        *-chosen)
            python scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --learning_rate 2e-4 --max_steps none --max_epochs 1 \
                --pretrain "$AGENT" --dataset "$pairs" --save_path "$RUN/$policy" --seed "$SEED"
            ;;
        *)
            python scripts/train_dpo.py --config $CONFIGS/actor.yaml --pretrain "$AGENT" --dataset "$pairs" \
                --save_path "$RUN/$policy" --seed "$SEED"
            ;;
    esac
    python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml --agent_model "$RUN/$policy" \
        --input_path "$OUT/tasks/test.jsonl" --output_path "$RUN/$policy.test.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$RUN/$policy.test.jsonl" --output_path "$RUN/$policy.graded.jsonl" |
        grep '^success' | sed "s/^/$policy: /"
    echo "$policy: $((SECONDS - began)) s"
done
