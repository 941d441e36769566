#!/usr/bin/env bash
# The quick mini world with an agent that saw the solution before a share of the dialogues that it imitated, one seed.
# The agent takes half an hour on one core, each seed five to ten minutes. Stopped, the same command continues.
#
#   bash lab/pretraining/shares.sh                     a share of 0.1
#   SHARE=0.05 SEED=1 bash lab/pretraining/shares.sh   another share, another seed (with the same agent)
#   SHARE=0 OUT=runs/untaught bash lab/pretraining/shares.sh     never saw it
#   AGENT=mini bash lab/pretraining/shares.sh          an agent that is there
set -euo pipefail

SHARE="${SHARE:-0.1}" SEED="${SEED:-0}"
OUT="$(realpath -m "${OUT:-runs/taught_$SHARE}")" # the agent, and a folder for each seed
RUN="$OUT/seed$SEED" AGENT="${AGENT:-$OUT/agent}"
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

# The agent, and the methods with the reference without c.
if [ "$AGENT" = "$OUT/agent" ]; then
    python -m lab.mini_agents.make_mini_agent --save_path "$AGENT" --informed_share "$SHARE" --num_steps 2400 --bf16
fi
AGENT="$AGENT" OUT="$RUN" SEED="$SEED" bash scripts/run_mini.sh

# Steps 5 to 8 for two other critics: the untrained agent, and the trained critic with the paper's reference.
policy() { # policy NAME FLAGS
    python scripts/rank_best_of_n.py --config configs/mini/ranking.yaml --input_path "$RUN/candidates.jsonl" \
        --output_path "$RUN/ranked_$1.jsonl" "${@:2}"
    python scripts/generate_random_pairs_from_ranks.py --config configs/mini/turn_pairs.yaml --seed "$SEED" \
        --input_path "$RUN/ranked_$1.jsonl" --output_path "$RUN/turn_pairs_$1.jsonl"
    python scripts/train_dpo.py --config configs/mini/actor.yaml --pretrain "$AGENT" \
        --dataset "$RUN/turn_pairs_$1.jsonl" --save_path "$RUN/$1" --seed "$SEED"
    python scripts/simulate_interactions.py --config configs/mini/evaluation.yaml --agent_model "$RUN/$1" \
        --input_path "$RUN/tasks/test.jsonl" --output_path "$RUN/$1.test.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$RUN/$1.test.jsonl" --output_path "$RUN/$1.graded.jsonl"
}
policy untrained --model_id "$AGENT"
policy seed --model_id "$RUN/critic" --reference seed --reference_model_id "$AGENT"

python scripts/compare_runs.py --baselines "rejection fine-tuning,multi-turn DPO" --output_path "$RUN/share.json" \
    --overwrite --markdown_path "$RUN/share.md" \
    --chains "SWEET-RL>rejection fine-tuning,SWEET-RL>multi-turn DPO,SWEET-RL>no critic training" \
    --runs "zero-shot=$RUN/zero_shot.graded.jsonl,rejection fine-tuning=$RUN/rft.graded.jsonl,\
multi-turn DPO=$RUN/dpo.graded.jsonl,SWEET-RL=$RUN/sweet.graded.jsonl,no critic training=$RUN/untrained.graded.jsonl,\
SWEET-RL (seed model as reference)=$RUN/seed.graded.jsonl"
python -m lab.critics.measure_mini_credit --overwrite --output_path "$RUN/credit.json" --markdown_path "$RUN/credit.md" \
    --runs "trained (sampling reference)=$RUN/ranked.jsonl,trained (seed reference)=$RUN/ranked_seed.jsonl,\
untrained (sampling reference)=$RUN/ranked_untrained.jsonl"
echo "written: $RUN/share.md, $RUN/credit.md; $SECONDS s in all"
