#!/usr/bin/env bash
# Policies in the ciphered world, after run.sh with the same cell and REPLIES: the client names clues to what matters, so
# that good credit of turns can teach an agent without c what a clue means. About an hour on one core.
#
#   export CIPHER=1 SEED=1 REPLIES=revealing_clue
#   CRITICS="untrained shuffled beta1-kl0 beta1-kl1" bash lab/ciphered/run.sh
#   POLICIES="zero_shot dpo random-gap beta1-kl1-gap" bash lab/ciphered/policy.sh
#
# A policy is CRITIC-RULE (rules of step 6: halves and gap), zero_shot, dpo or rft (the same dialogues, no critic), or dpo_kl0.1 (with a
# weight of the KL). The critic `random` knows nothing.
set -euo pipefail

CIPHER="${CIPHER:-1}" SEED="${SEED:-1}" NUM_TASKS="${NUM_TASKS:-1600}" RATE="${RATE:-1e-3}" REPLIES="${REPLIES:-clue}"
SHARE="${SHARE:-0.5}" NUM_TEST="${NUM_TEST:-400}" # of the training tasks, one dialogue each, for candidates; held-out tasks
OUT="$(realpath -m "${OUT:-runs/ciphered}")" CONFIGS=lab/ciphered/configs EVALUATION=dialogues
AGENT="$OUT/agent$SEED" CELL="$OUT/cipher$CIPHER-seed$SEED-$REPLIES-$NUM_TASKS"
RUN="$CELL/policy"
POLICIES="${POLICIES:-zero_shot random-gap equation2-gap kl-gap dpo rft}"
# shellcheck source-path=SCRIPTDIR source=../steps.sh
source "$(dirname "$0")/../steps.sh"
DOMAIN=(--task_type lab/ciphered/domain.py)

# The test tasks; candidates of training turns.
mkdir -p "$RUN"
python -m lab.ciphered.tasks --output_path "$RUN/test.tasks.jsonl" --num_tasks "$NUM_TEST" --seed $((SEED + 100)) \
    --cipher "$CIPHER" --part held_out --replies "$REPLIES"
python scripts/evaluate_code.py "${DOMAIN[@]}" --input_path "$CELL/train.jsonl" --output_path "$RUN/graded.jsonl" \
    --preference_path "$RUN/graded.pairs.jsonl"
[ -f "$RUN/first.jsonl" ] || grep '^{"id": "[^"]*-0",' "$RUN/graded.jsonl" >"$RUN/first.jsonl"
sample first --data_fraction "$SHARE"
for policy in $POLICIES; do
    critic="${policy%-*}" rule="${policy##*-}" model="$RUN/$policy-$RATE" rate=(--learning_rate "$RATE")
    case "$policy" in
        zero_shot) model="$AGENT" ;;
        dpo) prefer "dpo-$RATE" graded.pairs actor "${rate[@]}" ;;
        dpo_kl*) prefer "$policy-$RATE" graded.pairs actor "${rate[@]}" --kl_coef "${policy#dpo_kl}" ;;
        rft) imitate "rft-$RATE" graded "$AGENT" "${rate[@]}" ;;
        *)
            how=(--model_id "$CELL/$critic" --reference seed --reference_model_id "$AGENT" --normalize turn)
            case "$critic" in
                untrained) how=(--model_id "$AGENT" --reference seed_without_c "${how[@]:4}") ;;
                random) how=(--critic_type lab/controls/chance.py) ;;
            esac
            rank "$critic" candidates "${how[@]}"
            pair "$critic" "$rule"
            prefer "$policy-$RATE" "$policy.turn_pairs" actor "${rate[@]}"
            ;;
    esac
    # 8. Steps 1 and 2 on held-out combinations of topics.
    evaluate "$policy-$RATE" "$model" "$RUN/test.tasks" --best_of_n 2
done
