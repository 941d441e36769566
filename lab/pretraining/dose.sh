#!/usr/bin/env bash
# Do more dialogues teach the critic what pretraining did not? The agent that never saw a solution, one seed: critics on 200 and on
# 3,200 dialogues, policies by their order of the same candidates, and both baselines on 3,200. The agent takes 75 minutes
# on one core, each seed about half an hour. Stopped, the same command continues.
#
#   bash lab/pretraining/dose.sh                                                seed 0
#   CRITICS=3200 RATE=1e-4 POLICIES="" bash lab/pretraining/dose.sh             a try of the critic
#   CRITICS=3200 POLICIES=critic3200 KL=1 bash lab/pretraining/dose.sh          the critic with a penalty, and its policy
#   CRITICS="" POLICIES=critic3200 WIDE=0.25 bash lab/pretraining/dose.sh       candidates of a quarter of the 3,200
#   PART=validation CRITICS="" POLICIES=dpo3200 EPOCHS=4 bash lab/pretraining/dose.sh     a try of a baseline
#   CRITICS="" POLICIES=critic3200 REFERENCE=seed_without_c bash lab/pretraining/dose.sh     the reference of the untrained critic
#   AGENT=mini WORLD=taught bash lab/pretraining/dose.sh                        the agent of the quick world
#   OUT=runs/dose_small AGENT=mini NUM_TRAIN=52 NUM_TEST=4 bash lab/pretraining/dose.sh   every step on a handful of tasks
set -euo pipefail

SEED="${SEED:-0}" NUM_TRAIN="${NUM_TRAIN:-800}" NUM_TEST="${NUM_TEST:-400}" NUM_HELD_OUT="${NUM_HELD_OUT:-200}"
CRITICS="${CRITICS-untrained 200 3200}" POLICIES="${POLICIES-untrained critic200 critic3200 oracle dpo3200 rft3200}"
RATE="${RATE:-5e-4}" KL="${KL:-0}" PART="${PART:-test}" EPOCHS="${EPOCHS:-}" WIDE="${WIDE:-}"
REFERENCE="${REFERENCE:-seed}" OUT="$(realpath -m "${OUT:-runs/dose}")"
AGENT="${AGENT:-$OUT/agent}" RUN="$OUT/${WORLD:-untaught}/seed$SEED" CONFIGS=configs/mini
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

dialogues() { # dialogues NAME TASKS SEED: steps 1 and 2
    python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml --agent_model "$AGENT" --seed "$3" \
        --input_path "$OUT/$2.jsonl" --output_path "$RUN/$1.jsonl"
    python scripts/evaluate_code.py --input_path "$RUN/$1.jsonl" --k 4 --output_path "$RUN/$1.graded.jsonl" \
        --preference_path "$RUN/$1.pairs.jsonl" --ground_truth_preference_path "$RUN/$1.pairs_with_c.jsonl" >/dev/null
}

# The agent, and tasks: the first 50 training tasks and the test tasks are those of shares.sh.
[ "$AGENT" != "$OUT/agent" ] ||
    python -m lab.mini_agents.make_mini_agent --save_path "$AGENT" --informed_share 0 --num_steps 2400
python scripts/make_mini_tasks.py --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" --output_dir "$OUT/tasks"
python scripts/make_mini_tasks.py --seed 77 --num_train 1 --num_test "$NUM_HELD_OUT" --output_dir "$OUT/validation"
head -n 50 "$OUT/tasks/train.jsonl" >"$OUT/tasks/first.jsonl"
# 1, 2 and 4. Four dialogues a task, and candidates of the turns of the first 200.
dialogues 3200 tasks/train $((SEED + 1000))
dialogues 200 tasks/first $((SEED + 1000))
dialogues held_out validation/test $((SEED + 2000))
python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$RUN/200.graded.jsonl" --output_path "$RUN/candidates.jsonl"
[ -z "$WIDE" ] ||
    python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
        --data_fraction "$WIDE" --input_path "$RUN/3200.graded.jsonl" --output_path "$RUN/candidates-wide.jsonl"
[ -z "$POLICIES" ] ||
    python scripts/grade_candidates.py --task_type mini --input_path "$RUN/candidates${WIDE:+-wide}.jsonl" \
        --output_path "$RUN/graded_candidates${WIDE:+-wide}.jsonl"

# 3. Critics, measured on held-out pairs of dialogues, and on the candidates by the hidden rules.
critic_flags() { # critic_flags NAME: sets `how`
    how=(--model_id "$RUN/critic$1-$RATE-$KL" --reference "$REFERENCE")
    [ "$1" != untrained ] || how=(--model_id "$AGENT" --reference seed_without_c)
    how+=(--reference_model_id "$AGENT" --normalize turn)
}
for name in $CRITICS; do
    began=$SECONDS model="$RUN/critic$name-$RATE-$KL"
    [ "$name" != untrained ] || model="$RUN/criticuntrained"
    how=(--config "$CONFIGS/critic.yaml" --learning_rate "$RATE" --pretrain "$AGENT" --save_path "$model" --seed "$SEED")
    case "$name-$KL" in
        untrained-*) ;;
        *-0) python scripts/train_dpo.py "${how[@]}" --dataset "$RUN/$name.pairs_with_c.jsonl" ;;
        *) # a penalty of the KL beside equation 2 (lab/ciphered)
            python -m lab.ciphered.train_centred "${how[@]}" --centre 0 --kl_coef "$KL" \
                --dataset "$RUN/$name.pairs_with_c.jsonl"
            ;;
    esac
    critic_flags "$name"
    python scripts/rank_best_of_n.py "${how[@]}" --input_path "$RUN/candidates.jsonl" --output_path "$model.ranked.jsonl"
    python scripts/score_turns.py "${how[@]}" --input_path "$RUN/held_out.graded.jsonl" \
        --output_path "$model.credited.jsonl"
    python -m lab.pretraining.measure --ranked_path "$model.ranked.jsonl" --credited_path "$model.credited.jsonl" \
        --output_path "$model.json"
    echo "critic $name: $((SECONDS - began)) s"
done

for policy in $POLICIES; do
    began=$SECONDS model="$RUN/$policy"
    [ "$KL" = 0 ] || model="$model-kl"
    [ -z "$WIDE" ] || model="$model-wide"
    [ "$REFERENCE" = seed ] || model="$model-$REFERENCE"
    case "$policy" in
        dpo3200)
            epochs="${EPOCHS:-4}" model="$RUN/dpo3200-${EPOCHS:-4}"
            python scripts/train_dpo.py --config $CONFIGS/multi_turn_dpo.yaml --pretrain "$AGENT" --max_steps none --max_epochs "$epochs" \
                --dataset "$RUN/3200.pairs.jsonl" --save_path "$model" --seed "$SEED"
            ;;
        rft3200)
            epochs="${EPOCHS:-16}" model="$RUN/rft3200-${EPOCHS:-16}"
            python scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --pretrain "$AGENT" \
                --max_steps none --max_epochs "$epochs" --dataset "$RUN/3200.graded.jsonl" --save_path "$model" --seed "$SEED"
            ;;
        *) # 5 to 7. Questions in the order of the critic, answers by their reward; half over half.
            case "$policy" in
                oracle) how=(--critic_type lab/repairs/oracle.py) ;;
                random) how=(--critic_type lab/repairs/chance.py --critic_settings "{\"seed\": $SEED}") ;;
                *) critic_flags "${policy#critic}" ;;
            esac
            [ "$policy" = oracle ] || how+=(--place_answers)
            python scripts/rank_best_of_n.py "${how[@]}" --input_path "$RUN/graded_candidates${WIDE:+-wide}.jsonl" \
                --output_path "$model.ranked.jsonl"
            python scripts/generate_random_pairs_from_ranks.py --config $CONFIGS/turn_pairs.yaml --seed "$SEED" \
                --input_path "$model.ranked.jsonl" --output_path "$model.pairs.jsonl"
            python scripts/train_dpo.py --config $CONFIGS/actor.yaml --pretrain "$AGENT" --dataset "$model.pairs.jsonl" \
                --save_path "$model" --seed "$SEED"
            ;;
    esac
    # 8. Steps 1 and 2 on the test tasks.
    tests="$OUT/tasks/test.jsonl"
    [ "$PART" = test ] || tests="$OUT/validation/test.jsonl"
    python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml --agent_model "$model" \
        --input_path "$tests" --output_path "$model.$PART.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$model.$PART.jsonl" --output_path "$model.$PART.graded.jsonl" |
        grep '^success' | sed "s/^/seed $SEED, $policy, $PART: /"
    echo "$policy: $((SECONDS - began)) s"
done
