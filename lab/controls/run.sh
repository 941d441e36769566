#!/usr/bin/env bash
# Matched controls, one world and seed: hint distillation, and multi-turn DPO and rejection fine-tuning with as many
# sampled tokens as SWEET-RL. About a quarter of an hour on one core. Stopped, the same command continues.
#
#   bash lab/controls/run.sh                                        the hard world, seed 0
#   WORLD=quick SEED=1 CONTROLS=distillation bash lab/controls/run.sh
#   PART=validation EPOCHS=4 bash lab/controls/run.sh              another setting, on validation tasks
#   WORLD=NAME AGENT=FOLDER DRAW=201 bash lab/controls/run.sh      another agent and other tasks, in the quick world
#   NUM_TRAIN=8 NUM_TEST=4 bash lab/controls/run.sh                 every step on a handful of tasks
set -euo pipefail

WORLD="${WORLD:-hard}" SEED="${SEED:-0}" NUM_TRAIN="${NUM_TRAIN:-50}" NUM_TEST="${NUM_TEST:-400}"
CONTROLS="${CONTROLS:-distillation dpo rft}" PART="${PART:-test}" EPOCHS="${EPOCHS:-}" # default: the chosen epochs
OUT="$(realpath -m "${OUT:-runs/controls}")/$WORLD"
RUN="$OUT/seed$SEED"
case "$WORLD" in
    hard) AGENT="${AGENT:-mini_hard}" CONFIGS=configs/mini_hard TASKS="--world hard" DRAW="${DRAW:-1}" ;;
    *) AGENT="${AGENT:-mini}" CONFIGS=configs/mini TASKS="" DRAW="${DRAW:-0}" ;;
esac
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

# shellcheck disable=SC2086 # TASKS is several words or none
python scripts/make_mini_tasks.py $TASKS --seed $DRAW --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" --output_dir "$OUT/tasks"
# shellcheck disable=SC2086
python scripts/make_mini_tasks.py $TASKS --seed 77 --num_train 1 --num_test 200 --output_dir "$OUT/validation"
tests="$OUT/tasks/test.jsonl"
[ "$PART" = test ] || tests="$OUT/validation/test.jsonl"

play() { # play NAME BEST_OF_N FLAGS: steps 1 and 2 on the training tasks
    python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml --best_of_n "$2" --seed $((SEED + 1000)) \
        --input_path "$OUT/tasks/train.jsonl" --output_path "$RUN/$1.jsonl" "${@:3}"
}
for control in $CONTROLS; do
    began=$SECONDS
    case "$control" in
        distillation) # 200 dialogues with the solution in sight; imitation of those that succeeded, without it
            epochs="${EPOCHS:-16}" model="$RUN/distillation-$epochs"
            python -m lab.controls.informed agent --model_id "$AGENT" --save_path "$OUT/informed_agent"
            play informed 4 --task_type lab/controls/informed.py --agent_model "$OUT/informed_agent"
            python scripts/evaluate_code.py --task_type lab/controls/informed.py --input_path "$RUN/informed.jsonl" --output_path "$RUN/informed.graded.jsonl" |
                grep '^success' | sed "s/^/with the solution in sight: /"
            python -m lab.controls.informed forget --input_path "$RUN/informed.graded.jsonl" \
                --output_path "$RUN/forgetful.jsonl"
            python scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --pretrain "$AGENT" --max_steps none --max_epochs "$epochs" \
                --dataset "$RUN/forgetful.jsonl" --save_path "$model" --seed "$SEED"
            ;;
        dpo | rft) # 32 dialogues a task: as many sampled tokens as the dialogues and candidates of SWEET-RL, and as many pairs
            play many 32 --agent_model "$AGENT"
            python scripts/evaluate_code.py --input_path "$RUN/many.jsonl" --k 32 --output_path "$RUN/many.graded.jsonl" \
                --preference_path "$RUN/many.pairs.jsonl" >/dev/null
            if [ "$control" = dpo ]; then
                epochs="${EPOCHS:-1}" model="$RUN/dpo-$epochs"
                python scripts/train_dpo.py --config $CONFIGS/multi_turn_dpo.yaml --pretrain "$AGENT" --max_steps none --max_epochs "$epochs" \
                    --max_pairs_per_prompt 32 --dataset "$RUN/many.pairs.jsonl" --save_path "$model" --seed "$SEED"
            else
                epochs="${EPOCHS:-16}" model="$RUN/rft-$epochs"
                python scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --pretrain "$AGENT" \
                    --max_steps none --max_epochs "$epochs" --dataset "$RUN/many.graded.jsonl" --save_path "$model" --seed "$SEED"
            fi
            ;;
        *) echo "run.sh: unknown control $control" >&2 && exit 2 ;;
    esac
    # 8. Steps 1 and 2 on the test tasks.
    python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml --agent_model "$model" \
        --input_path "$tests" --output_path "$model.$PART.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$model.$PART.jsonl" --output_path "$model.$PART.graded.jsonl" |
        grep '^success' | sed "s/^/$WORLD, seed $SEED, $control, $epochs epochs, $PART: /"
    echo "$control: $((SECONDS - began)) s"
done
