#!/usr/bin/env bash
# The quick world with another agent of the same recipe and another draw of tasks: all methods, and multi-turn DPO with
# as many sampled tokens as SWEET-RL. An agent takes half an hour to two hours on one core, a draw ten to twenty minutes.
# Stopped, the same command continues.
#
#   bash lab/agents/run.sh                        the packaged agent (0) and its tasks (draw 0)
#   MAKER=2 DRAW=202 bash lab/agents/run.sh       the agent of seed 2, other training and test tasks
#   METHODS=dpo MAKER=2 DRAW=202 bash lab/agents/run.sh    multi-turn DPO with as many sampled tokens alone
set -euo pipefail

MAKER="${MAKER:-0}" DRAW="${DRAW:-0}" METHODS="${METHODS:-all dpo}"
OUT="$(realpath -m "${OUT:-runs/agents}")"
CELL="agent$MAKER-draw$DRAW" AGENT=mini
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers

if [ "$MAKER" != 0 ]; then
    AGENT="$OUT/agents/$MAKER"
    python -m lab.mini_agents.make_mini_agent --seed "$MAKER" --save_path "$AGENT"
fi
export AGENT DRAW
for methods in $METHODS; do
    case "$methods" in
        all) OUT="$OUT/$CELL" bash lab/pretraining/shares.sh ;;
        dpo) WORLD="$CELL" CONTROLS=dpo OUT="$OUT" bash lab/controls/run.sh ;;
        *) echo "run.sh: unknown methods $methods (there are all and dpo)" >&2 && exit 2 ;;
    esac
done
