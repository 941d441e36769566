#!/usr/bin/env bash
# What does the loss do? One world and seed, on the files of `doit table2` (docs/results.md). About seven minutes on one core a
# seed. Stopped, the same command continues.
#
#   SEEDS=5 doit table2 && SEED=0 bash lab/losses/run.sh
#   WORLD=hard SEED=1 POLICIES="no_preference" bash lab/losses/run.sh
#
# Policies: no_preference (SWEET-RL's command with a preference of weight 0: imitation of the same chosen texts, as often),
# sweet_nll and dpo_nll (the paper's NLL weight), sweet_paper (its beta too). The rows of GRPO were made by this file in commit
# 6f843df6.
set -euo pipefail

WORLD="${WORLD:-quick}" SEED="${SEED:-0}"
POLICIES="${POLICIES:-no_preference sweet_nll dpo_nll sweet_paper}"
FROM="$(realpath -m "${FROM:-runs/$WORLD}")" OUT="$(realpath -m "${OUT:-runs/losses}")/$WORLD/seed$SEED"
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
case "$WORLD" in hard) AGENT=mini_hard ;; *) AGENT=mini ;; esac
CONFIGS=configs/$AGENT RUN="$FROM/seed$SEED"

for policy in $POLICIES; do
    model="$OUT/$policy" to=(--pretrain "$AGENT" --seed "$SEED" --save_path "$OUT/$policy")
    case "$policy" in
        no_preference) loss=(--beta 1e-6) ;;
        *_nll) loss=(--nll_loss_coef 0.01) ;;
        *_paper) loss=(--beta 0.1 --nll_loss_coef 0.01) ;;
    esac
    case "$policy" in
        dpo_*) python scripts/train_dpo.py --config $CONFIGS/multi_turn_dpo.yaml "${to[@]}" --dataset "$RUN/pairs.jsonl" "${loss[@]}" ;;
        *) python scripts/train_dpo.py --config $CONFIGS/actor.yaml "${to[@]}" --dataset "$RUN/turn_pairs.jsonl" "${loss[@]}" ;;
    esac
    python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml --agent_model "$model" --seed "$SEED" \
        --input_path "$FROM/tasks/test.jsonl" --output_path "$model.test.jsonl"
    python scripts/evaluate_code.py --input_path "$model.test.jsonl" --output_path "$model.graded.jsonl" |
        grep '^success' | sed "s/^/$WORLD, seed $SEED, $policy: /"
done
