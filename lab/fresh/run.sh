#!/usr/bin/env bash
# The declared experiment on fresh tasks: see README.md. Without cells, the tries on validation tasks. A cell takes half an hour
# on one core, an agent (1, 2) as long. Stopped, the same command continues.
#
#   bash lab/fresh/run.sh                 all tries, with agent 0
#   bash lab/fresh/run.sh 0-301 1-302     cells AGENT-DRAW with the chosen settings
set -euo pipefail
cd "$(dirname "$0")/../.."
export OUT="${OUT:-runs/fresh}"

policy_tries() { # four tries of a policy that learns from turn pairs
    echo "$1 $1+nll_loss_coef=0.01 $1+beta=0.3 $1+beta=0.3+nll_loss_coef=0.01"
}
if [ $# = 0 ]; then
    POLICIES="rft+max_steps=8 rft+max_steps=16 rft+max_steps=32 rft+max_steps=64"
    POLICIES+=" dpo+max_steps=16 dpo+max_steps=32 dpo+max_steps=64 dpo+max_steps=64+nll_loss_coef=0.01"
    POLICIES+=" $(policy_tries pmi-halves) $(policy_tries sweet-halves)"
    POLICIES+=" rft_more+max_steps=22 rft_more+max_steps=44 rft_more+max_steps=88 rft_more+max_steps=176"
    export POLICIES
    MAKER=0 DRAW=300 PART=validation bash lab/costs/run.sh
fi
for cell in "$@"; do
    MAKER="${cell%-*}" DRAW="${cell#*-}" POLICIES="${CHOSEN:?the settings of the tries}" bash lab/costs/run.sh
done
