#!/usr/bin/env bash
# The quick mini world with an agent that saw the solution before a share of the dialogues that it imitated, one seed.
# The agent takes half an hour on one core, each seed five to ten minutes. Stopped, the same command continues.
#
#   bash lab/pretraining/shares.sh                     a share of 0.1
#   SHARE=0.05 SEED=1 bash lab/pretraining/shares.sh   another share, another seed (with the same agent)
#   SHARE=0 OUT=runs/untaught bash lab/pretraining/shares.sh     never saw it
#   AGENT=mini bash lab/pretraining/shares.sh          an agent that is there
set -euo pipefail

SHARE="${SHARE:-0.1}" SEED="${SEED:-0}" CONFIGS=configs/mini
OUT="$(realpath -m "${OUT:-runs/taught_$SHARE}")" # the agent, and a folder for each seed
RUN="$OUT/seed$SEED" AGENT="${AGENT:-$OUT/agent}"
# shellcheck source-path=SCRIPTDIR source=../steps.sh
source "$(dirname "$0")/../steps.sh"

# The agent, and the methods with the reference without c.
if [ "$AGENT" = "$OUT/agent" ]; then
    python -m lab.mini_agents.make_mini_agent --save_path "$AGENT" --informed_share "$SHARE" --num_steps 2400 --bf16
fi
AGENT="$AGENT" OUT="$RUN" SEED="$SEED" bash scripts/run_mini.sh

# Steps 5 to 8 for two other critics: the untrained agent, and the trained critic with the paper's reference.
policy() { # policy NAME FLAGS
    rank "$1" candidates --config $CONFIGS/ranking.yaml "${@:2}"
    pair "$1" halves
    prefer "$1" "$1-halves.turn_pairs" actor
    evaluate "$1.test" "$RUN/$1" "$RUN/tasks/test"
}
policy untrained --model_id "$AGENT"
policy seed --model_id "$RUN/critic" --reference seed --reference_model_id "$AGENT"

python scripts/compare_runs.py --baselines "rejection fine-tuning,multi-turn DPO" --output_path "$RUN/share.json" \
    --overwrite --markdown_path "$RUN/share.md" \
    --chains "SWEET-RL>rejection fine-tuning,SWEET-RL>multi-turn DPO,SWEET-RL>no critic training" \
    --runs "zero-shot=$RUN/zero_shot.graded.jsonl,rejection fine-tuning=$RUN/rft.graded.jsonl,\
multi-turn DPO=$RUN/dpo.graded.jsonl,SWEET-RL=$RUN/sweet.graded.jsonl,no critic training=$RUN/untrained.test.graded.jsonl,\
SWEET-RL (seed model as reference)=$RUN/seed.test.graded.jsonl"
python -m lab.critics.measure_mini_credit --overwrite --output_path "$RUN/credit.json" --markdown_path "$RUN/credit.md" \
    --runs "trained (sampling reference)=$RUN/ranked.jsonl,trained (seed reference)=$RUN/seed.ranked.jsonl,\
untrained (sampling reference)=$RUN/untrained.ranked.jsonl"
