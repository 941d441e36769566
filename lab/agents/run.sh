#!/usr/bin/env bash
# The quick world with another agent of the same recipe and another draw of tasks: all methods, and multi-turn DPO with
# as many sampled tokens as SWEET-RL. An agent takes half an hour to two hours on one core, a draw ten to twenty minutes.
# Stopped, the same command continues.
#
#   bash lab/agents/run.sh                        the packaged agent (0) and its tasks (draw 0)
#   MAKER=2 DRAW=202 bash lab/agents/run.sh       the agent of seed 2, other training and test tasks
set -euo pipefail

MAKER="${MAKER:-0}" OUT="$(realpath -m "${OUT:-runs/agents}")"
export DRAW="${DRAW:-0}" AGENT=mini
CELL="agent$MAKER-draw$DRAW"
cd "$(dirname "$0")/../.."
if [ "$MAKER" != 0 ]; then
    # shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
    source scripts/environment.sh
    install "[train]" sweet_rl transformers
    export AGENT="$OUT/agents/$MAKER"
    python -m lab.mini_agents.make_mini_agent --seed "$MAKER" --save_path "$AGENT"
fi
OUT="$OUT/$CELL" bash lab/pretraining/shares.sh
WORLD="$CELL" POLICIES=dpo OUT="$OUT" bash lab/controls/run.sh
