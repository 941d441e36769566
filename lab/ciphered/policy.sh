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
ROOT="$(realpath -m "${OUT:-runs/ciphered}")"
AGENT="$ROOT/agent$SEED" CELL="$ROOT/cipher$CIPHER-seed$SEED-$REPLIES-$NUM_TASKS"
POLICIES="${POLICIES:-zero_shot random-gap equation2-gap kl-gap dpo rft}"
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
DOMAIN=lab/ciphered/domain.py CONFIGS=lab/ciphered/configs
OUT="$CELL/policy"
mkdir -p "$OUT"

train() { # train NAME SCRIPT DATASET CONFIG FLAGS: step 7
    python "scripts/$2" --config $CONFIGS/"${4:-actor}.yaml" --pretrain "$AGENT" --dataset "$3" --save_path "$OUT/$1-$RATE" \
        --seed "$SEED" --learning_rate "$RATE" "${@:5}"
}
grade() { # grade DIALOGUES NAME: their rewards, and pairs of dialogues without c
    python scripts/evaluate_code.py --task_type $DOMAIN --input_path "$1" --output_path "$OUT/$2.jsonl" \
        --preference_path "$OUT/$2.pairs.jsonl"
}

# The test tasks; candidates of training turns.
python -m lab.ciphered.tasks --output_path "$OUT/test.tasks.jsonl" --num_tasks "$NUM_TEST" --seed $((SEED + 100)) \
    --cipher "$CIPHER" --part held_out --replies "$REPLIES"
grade "$CELL/train.jsonl" graded
[ -f "$OUT/first.jsonl" ] || grep '^{"id": "[^"]*-0",' "$OUT/graded.jsonl" >"$OUT/first.jsonl"
python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$OUT/first.jsonl" --output_path "$OUT/candidates.jsonl" --data_fraction "$SHARE"
for policy in $POLICIES; do
    critic="${policy%-*}" rule="${policy##*-}" pairs="$OUT/$policy.pairs.jsonl" model="$OUT/$policy-$RATE"
    case "$policy" in
        zero_shot) model="$AGENT" ;;
        dpo) train dpo train_dpo.py "$OUT/graded.pairs.jsonl" ;;
        dpo_kl*) train "$policy" train_dpo.py "$OUT/graded.pairs.jsonl" actor --kl_coef "${policy#dpo_kl}" ;;
        rft) train rft train_sft.py "$OUT/graded.jsonl" imitation ;;
        *)
            how=(--model_id "$CELL/$critic" --reference seed --reference_model_id "$AGENT" --normalize turn)
            case "$critic" in
                untrained) how=(--model_id "$AGENT" --reference seed_without_c "${how[@]:4}") ;;
                random) how=(--critic_type lab/repairs/chance.py) ;;
            esac
            python scripts/rank_best_of_n.py "${how[@]}" \
                --input_path "$OUT/candidates.jsonl" --output_path "$OUT/$critic.ranked.jsonl"
            python scripts/generate_random_pairs_from_ranks.py --rule "$rule" --num_pairs 4 --seed "$SEED" \
                --input_path "$OUT/$critic.ranked.jsonl" --output_path "$pairs"
            train "$policy" train_dpo.py "$pairs"
            ;;
    esac
    # 8. Steps 1 and 2 on held-out combinations of topics.
    python scripts/simulate_interactions.py --config $CONFIGS/dialogues.yaml --task_type $DOMAIN --agent_model "$model" \
        --best_of_n 2 --seed "$SEED" --input_path "$OUT/test.tasks.jsonl" --output_path "$OUT/$policy-$RATE.jsonl"
    python scripts/evaluate_code.py --task_type $DOMAIN --input_path "$OUT/$policy-$RATE.jsonl" \
        --output_path "$OUT/$policy-$RATE.graded.jsonl" | grep '^success' | sed "s/^/$policy: /"
done
