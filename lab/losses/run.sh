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
FROM="$(realpath -m "${FROM:-runs/$WORLD}")" RUN="$(realpath -m "${OUT:-runs/losses}")/$WORLD/seed$SEED" AGENT=mini
[ "$WORLD" != hard ] || AGENT=mini_hard
CONFIGS=configs/$AGENT
# shellcheck source-path=SCRIPTDIR source=../steps.sh
source "$(dirname "$0")/../steps.sh"

for policy in $POLICIES; do
    case "$policy" in
        no_preference) loss=(--beta 1e-6) ;;
        *_nll) loss=(--nll_loss_coef 0.01) ;;
        *_paper) loss=(--beta 0.1 --nll_loss_coef 0.01) ;;
    esac
    case "$policy" in
        dpo_*) config=multi_turn_dpo pairs=pairs ;;
        *) config=actor pairs=turn_pairs ;;
    esac
    prefer "$policy" "$FROM/seed$SEED/$pairs" $config "${loss[@]}"
    evaluate "$policy.test" "$RUN/$policy" "$FROM/tasks/test"
done
