#!/usr/bin/env bash
# Policies in the ciphered world, after run.sh with REPLIES=clue on the same cell: the client names clues to what matters,
# so that good credit of turns can teach an agent without c what a clue means. About half an hour on one core.
#
#   CIPHER=1 SEED=1 REPLIES=clue CRITICS="untrained equation2 kl" bash lab/ciphered/run.sh
#   CIPHER=1 SEED=1 bash lab/ciphered/policy.sh
#   POLICIES="kl-halves oracle" RATE=5e-4 bash lab/ciphered/policy.sh    these only, with another learning rate
set -euo pipefail

CIPHER="${CIPHER:-1}" SEED="${SEED:-1}" NUM_TASKS="${NUM_TASKS:-1600}" RATE="${RATE:-1e-3}"
SHARE="${SHARE:-0.06}" NUM_TEST="${NUM_TEST:-400}" # of the training tasks, for candidates; held-out tasks
ROOT="$(realpath -m "${OUT:-runs/ciphered}")"
AGENT="$ROOT/agent$SEED" CELL="$ROOT/cipher$CIPHER-seed$SEED-clue-$NUM_TASKS"
POLICIES="${POLICIES:-zero_shot dpo untrained-halves equation2-halves kl-halves kl-best_over_worst kl-gap random oracle}"
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
DOMAIN=lab/ciphered/domain.py CONFIGS=lab/ciphered/configs
OUT="$CELL/policy" PLAIN="$CELL/train.plain_pairs.jsonl"
mkdir -p "$OUT"

train() { # train NAME PAIRS FLAGS: step 7
    python scripts/train_dpo.py --config $CONFIGS/actor.yaml --pretrain "$AGENT" --dataset "$2" --save_path "$OUT/$1-$RATE" \
        --seed "$SEED" --learning_rate "$RATE" "${@:3}"
}

# The test tasks; candidates of training turns, ranked by each critic; pairs of dialogues without c.
python -m lab.ciphered.tasks --output_path "$OUT/test.tasks.jsonl" --num_tasks "$NUM_TEST" --seed $((SEED + 100)) \
    --cipher "$CIPHER" --part held_out --replies clue
python scripts/evaluate_code.py --task_type $DOMAIN --input_path "$CELL/train.jsonl" --output_path "$OUT/graded.jsonl" \
    --preference_path "$PLAIN" >/dev/null
python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$OUT/graded.jsonl" --output_path "$OUT/candidates.jsonl" --data_fraction "$SHARE"
for policy in $POLICIES; do
    critic="${policy%-*}" rule="${policy#*-}" pairs="$OUT/$policy.pairs.jsonl" model="$OUT/$policy-$RATE"
    case "$policy" in
        zero_shot) model="$AGENT" ;;
        dpo) train dpo "$PLAIN" ;;
        *)
            [ "$rule" != "$policy" ] || critic=untrained # random and oracle need some ranked file
            how=(--model_id "$CELL/$critic" --reference seed)
            [ "$critic" != untrained ] || how=(--model_id "$AGENT" --reference seed_without_c)
            python scripts/rank_best_of_n.py "${how[@]}" --reference_model_id "$AGENT" --normalize turn \
                --input_path "$OUT/candidates.jsonl" --output_path "$OUT/$critic.ranked.jsonl"
            if [ "$rule" = halves ] || [ "$rule" = gap ]; then
                python scripts/generate_random_pairs_from_ranks.py --rule "$rule" --num_pairs 4 --seed "$SEED" \
                    --input_path "$OUT/$critic.ranked.jsonl" --output_path "$pairs"
            else
                python -m lab.ciphered.choose_pairs --rule "$rule" --seed "$SEED" \
                    --input_path "$OUT/$critic.ranked.jsonl" --output_path "$pairs"
            fi
            train "$policy" "$pairs"
            ;;
    esac
    # 8. Steps 1 and 2 on held-out combinations of topics.
    python scripts/simulate_interactions.py --config $CONFIGS/dialogues.yaml --task_type $DOMAIN --agent_model "$model" \
        --best_of_n 2 --seed "$SEED" --input_path "$OUT/test.tasks.jsonl" --output_path "$OUT/$policy-$RATE.jsonl"
    python scripts/evaluate_code.py --task_type $DOMAIN --input_path "$OUT/$policy-$RATE.jsonl" \
        --output_path "$OUT/$policy-$RATE.graded.jsonl" | grep '^success' | sed "s/^/$policy: /"
done
