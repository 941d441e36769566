#!/usr/bin/env bash
# Controls of SWEET-RL and repairs of it, one world and seed. A policy takes a few minutes on one core. Stopped, the same command
# continues.
#
#   bash lab/controls/run.sh                                        the hard world, seed 0
#   WORLD=quick SEED=1 POLICIES=distillation bash lab/controls/run.sh
#   WORLD=quick POLICIES="paper paper-answers release release-answers random-answers release-gap" bash lab/controls/run.sh
#   PART=validation EPOCHS=4 bash lab/controls/run.sh              another setting of the controls, on validation tasks
#   WORLD=NAME AGENT=FOLDER DRAW=201 bash lab/controls/run.sh      another agent and other tasks, in the quick world
#   NUM_TRAIN=8 NUM_TEST=4 bash lab/controls/run.sh                 every step on a handful of tasks
#
# Controls: distillation (of play with the solution in sight), dpo and rft (with as many sampled tokens as SWEET-RL). Repairs
# are ORDER or ORDER-RULE: candidates ordered by the critic with the paper's reference (paper), the release's (release), the seed
# model in place of the critic (untrained), the hidden rules (oracle), or chance (random); -answers: with --place_answers, -gap:
# pairs by a gap of scores, -chosen: imitation of the chosen texts.
set -euo pipefail

WORLD="${WORLD:-hard}" SEED="${SEED:-0}" NUM_TRAIN="${NUM_TRAIN:-50}" NUM_TEST="${NUM_TEST:-400}"
POLICIES="${POLICIES:-distillation dpo rft}" PART="${PART:-test}" EPOCHS="${EPOCHS:-}" # default: the chosen epochs
OUT="$(realpath -m "${OUT:-runs/controls}")/$WORLD"
RUN="$OUT/seed$SEED" CONFIGS=configs/mini TASKS=()
if [ "$WORLD" = hard ]; then
    CONFIGS=configs/mini_hard TASKS=(--world hard) DRAW="${DRAW:-1}"
fi
AGENT="${AGENT:-${CONFIGS#*/}}"
# shellcheck source-path=SCRIPTDIR source=../steps.sh
source "$(dirname "$0")/../steps.sh"

python scripts/make_mini_tasks.py "${TASKS[@]}" --seed "${DRAW:-0}" --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" \
    --output_dir "$OUT/tasks"
python scripts/make_mini_tasks.py "${TASKS[@]}" --seed 77 --num_train 1 --num_test 200 --output_dir "$OUT/validation"
tests="$OUT/tasks/test" train="$OUT/tasks/train"
[ "$PART" = test ] || tests="$OUT/validation/test"

distil() { # 200 dialogues with the solution in sight; imitation of those that succeeded, without it
    python -m lab.controls.informed agent --model_id "$AGENT" --save_path "$OUT/informed_agent"
    DOMAIN=(--task_type lab/controls/informed.py)
    dialogues informed collection "$OUT/informed_agent" "$train" $((SEED + 1000)) --best_of_n 4
    grade informed
    DOMAIN=()
    python -m lab.controls.informed forget --input_path "$RUN/informed.graded.jsonl" --output_path "$RUN/forgetful.jsonl"
    imitate "$name" forgetful "$AGENT" --max_steps none --max_epochs "$epochs"
}
repair() { # repair ORDER-RULE: steps 1 to 7 with the settings of SWEET-RL
    local order="${1%-*}" how=() rule=halves
    play few "$train" 4 "$AGENT"
    sample few.graded
    python scripts/grade_candidates.py --task_type mini --input_path "$RUN/candidates.jsonl" --output_path "$RUN/graded_candidates.jsonl"
    case "$order" in
        paper | release) prefer critic few.pairs_with_c critic ;;
    esac
    case "$order" in
        paper) how=(--model_id "$RUN/critic" --normalize turn --reference seed --reference_model_id "$AGENT") ;;
        release) how=(--model_id "$RUN/critic" --normalize turn --reference sampled) ;;
        untrained) how=(--model_id "$AGENT" --normalize turn --reference sampled) ;;
        oracle) how=(--critic_type lab/controls/oracle.py) ;;
        random) how=(--critic_type lab/controls/chance.py --critic_settings "{\"seed\": $SEED}") ;;
        *) echo "run.sh: unknown policy $1" >&2 && exit 2 ;;
    esac
    case "$1" in
        *-answers) how+=(--place_answers) ;;
        *-gap) rule=gap ;;
    esac
    rank "$1" graded_candidates "${how[@]}"
    pair "$1" "$rule"
    case "$1" in
        *-chosen) imitate "$1" "$1-$rule.turn_pairs" "$AGENT" --learning_rate 2e-4 --max_steps none --max_epochs 1 ;;
        *) prefer "$1" "$1-$rule.turn_pairs" actor ;;
    esac
}
for policy in $POLICIES; do
    case "$policy" in
        distillation)
            epochs="${EPOCHS:-16}" name="distillation-$epochs"
            distil
            ;;
        dpo) # 32 dialogues a task: as many sampled tokens as the dialogues and candidates of SWEET-RL, and as many pairs
            epochs="${EPOCHS:-1}" name="dpo-$epochs"
            play many "$train" 32 "$AGENT"
            prefer "$name" many.pairs multi_turn_dpo --max_steps none --max_epochs "$epochs" --max_pairs_per_prompt 32
            ;;
        rft)
            epochs="${EPOCHS:-16}" name="rft-$epochs"
            play many "$train" 32 "$AGENT"
            imitate "$name" many.graded "$AGENT" --max_steps none --max_epochs "$epochs"
            ;;
        *)
            name="$policy"
            repair "$policy"
            ;;
    esac
    evaluate "$name.$PART" "$RUN/$name" "$tests"
done
