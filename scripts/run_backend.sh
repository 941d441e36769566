#!/usr/bin/env bash
# Backend Programming with the paper's settings (configs/paper/backend), on a machine with eight GPUs, in an environment
# with pip install -e '.[vllm,deepspeed]'. Stopped at any point, the same command continues.
#
#   vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4             # the simulated human, on node1
#   HUMAN_SERVER=node1:8000 TRAIN_TASKS=colbench/backend/train TEST_TASKS=colbench/backend/test \
#       bash scripts/run_backend.sh                                                   # or files of your own
#
# From released dialogues, without step 1: DIALOGUES=colbench/backend/offline. All tables: scripts/reproduce.sh.
set -euo pipefail

records() { # a path seen from the folder of the call; a name on the hub as it is
    if [[ "$1" =~ ^(hf://|colbench/) && ! -e "$1" ]]; then echo "$1"; else realpath -m "$1"; fi
}
HUMAN="${HUMAN:-meta-llama/Llama-3.1-70B-Instruct}" HUMAN_SERVER="${HUMAN_SERVER:-localhost:8000}"
AGENT="${AGENT:-meta-llama/Llama-3.1-8B-Instruct}" CONFIGS=configs/paper/backend
TRAIN_TASKS="$(records "${TRAIN_TASKS:-data/backend_tasks/train.jsonl}")"
TEST_TASKS="$(records "${TEST_TASKS:-data/backend_tasks/test.jsonl}")"
OUT="$(realpath -m "${OUT:-runs/backend}")" DIALOGUES="${DIALOGUES:+$(records "$DIALOGUES")}" SEED="${SEED:-0}"
read -ra LAUNCH <<<"${LAUNCH:-torchrun --nproc_per_node 8}" # or "deepspeed --hostfile hosts"
cd "$(dirname "$0")/.."

# 1. Three dialogues of the untrained agent on each of 5,000 tasks. The agent plays in this process, in vLLM.
[ "$DIALOGUES" ] || python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml --agent_model "$AGENT" \
    --env_model "$HUMAN" --hostname "$HUMAN_SERVER" --input_path "$TRAIN_TASKS" \
    --output_path "${DIALOGUES:=$OUT/trajectories.jsonl}" --seed $((SEED + 1000))
# 2. Rewards by hidden unit tests; pairs of dialogues, as they were and with the reference solution for the critic.
python scripts/evaluate_code.py --input_path "$DIALOGUES" --output_path "$OUT/rewarded.jsonl" --tokenizer "$AGENT" \
    --preference_path "$OUT/pairs.jsonl" --ground_truth_preference_path "$OUT/pairs_with_c.jsonl"

# Baselines: imitate the dialogues that succeeded; DPO on whole dialogues.
"${LAUNCH[@]}" scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --pretrain "$AGENT" \
    --dataset "$OUT/rewarded.jsonl" --save_path "$OUT/rft" --seed "$SEED"
"${LAUNCH[@]}" scripts/train_dpo.py --config $CONFIGS/multi_turn_dpo.yaml --pretrain "$AGENT" \
    --dataset "$OUT/pairs.jsonl" --save_path "$OUT/dpo" --seed "$SEED"

# 3. The critic: DPO on the dialogues with the reference solution, log-probs as means over turns.
"${LAUNCH[@]}" scripts/train_dpo.py --config $CONFIGS/critic.yaml --pretrain "$AGENT" \
    --dataset "$OUT/pairs_with_c.jsonl" --save_path "$OUT/critic" --seed "$SEED"
# 4. Sixteen candidates for each turn of a tenth of the tasks.
python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$OUT/rewarded.jsonl" --output_path "$OUT/candidates.jsonl"
# 5. Their order by the critic's advantage over the untrained agent.
python scripts/rank_best_of_n.py --config $CONFIGS/ranking.yaml --model_id "$OUT/critic" --reference_model_id "$AGENT" \
    --input_path "$OUT/candidates.jsonl" --output_path "$OUT/ranked.jsonl"
# 6. Turn pairs: one of the better half over one of the worse half.
python scripts/generate_random_pairs_from_ranks.py --config $CONFIGS/turn_pairs.yaml --seed "$SEED" \
    --input_path "$OUT/ranked.jsonl" --output_path "$OUT/turn_pairs.jsonl"
# 7. The policy of SWEET-RL: DPO on the turn pairs.
"${LAUNCH[@]}" scripts/train_dpo.py --config $CONFIGS/actor.yaml --pretrain "$AGENT" \
    --dataset "$OUT/turn_pairs.jsonl" --save_path "$OUT/sweet" --seed "$SEED"

# 8. Steps 1 and 2 on the test tasks, for the untrained agent (zero-shot) and the three trained ones; their comparison.
for model in "$AGENT" "$OUT/rft" "$OUT/dpo" "$OUT/sweet"; do
    run="$OUT/$(basename "$model")"
    python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml --agent_model "$model" --env_model "$HUMAN" \
        --hostname "$HUMAN_SERVER" --input_path "$TEST_TASKS" --output_path "$run.test.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$run.test.jsonl" --output_path "$run.graded.jsonl"
done
python scripts/compare_runs.py --baselines "zero-shot,multi-turn DPO" --output_path "$OUT/results.json" --overwrite \
    --runs "zero-shot=$OUT/$(basename "$AGENT").graded.jsonl,rejection fine-tuning=$OUT/rft.graded.jsonl,\
multi-turn DPO=$OUT/dpo.graded.jsonl,SWEET-RL=$OUT/sweet.graded.jsonl" --markdown_path "$OUT/results.md"
