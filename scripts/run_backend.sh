#!/usr/bin/env bash
# Backend Programming with the paper's settings (configs/paper/backend), on a machine with eight GPUs of 80 GB, in an
# environment with pip install -c constraints-gpu.txt -e '.[vllm,deepspeed]'. Stopped at any point, the same command continues.
#
#   HUMAN_GPUS=0,1,2,3 NUM_TASKS=16 OUT=runs/trial bash scripts/run_backend.sh       the real models on 16 tasks
#   HUMAN_GPUS=0,1,2,3 bash scripts/run_backend.sh       everything; the human's server has four GPUs during dialogues
#   HUMAN_SERVER=node1:8000 bash scripts/run_backend.sh  the same with a server elsewhere:
#       vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4
#
# REFERENCE=seed: the paper's reference of the ranking, to repeat the paper; by default the log-probs of sampling, with which
# more was learned in our worlds (docs/critics.md). Turn pairs are also made by PMI, without a critic: "turn pairs by PMI" in
# the table. If SWEET-RL is not above it, the critic has added nothing.
#
# TRAIN_TASKS=FILE TEST_TASKS=FILE: files of your own. DIALOGUES=colbench/backend/offline: the released dialogues, without
# step 1. TRAIN_FLAGS, PLAY_FLAGS, RANK_FLAGS: more flags of every training, dialogue step and ranking. The variables of
# GPUs and the human's server: gpus.sh.
#
# Dialogues and grades follow the published protocol, to be compared with the paper. Its prompts are downloaded once
# (PROTOCOL_FILES=FOLDER: they are there). PROTOCOL=sweet_rl: prompts and rules of this package.
# shellcheck disable=SC2086 # launchers and flags are several words or none
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "$0")/steps.sh"

RECIPE="${RECIPE:-run_backend.sh}"
HUMAN="${HUMAN:-meta-llama/Llama-3.1-70B-Instruct}" AGENT="${AGENT:-meta-llama/Llama-3.1-8B-Instruct}"
CONFIGS="${CONFIGS:-configs/paper/backend}" SEED="${SEED:-0}" REFERENCE="${REFERENCE:-sampled}"
TRAIN_TASKS="$(path "${TRAIN_TASKS:-colbench/backend/train}")"
TEST_TASKS="$(path "${TEST_TASKS:-colbench/backend/test}")"
PROTOCOL_FILES="${PROTOCOL_FILES:+$(path "$PROTOCOL_FILES")}"
OUT="$(path "${OUT:-runs/backend}")" DIALOGUES="${DIALOGUES:+$(path "$DIALOGUES")}"
TRAIN="${TRAIN_FLAGS:-}" RANK="${RANK_FLAGS:-}" LIMIT="${NUM_TASKS:+--num_tasks $NUM_TASKS}"
cd "$(dirname "$0")/.."
# shellcheck source-path=SCRIPTDIR source=gpus.sh
source scripts/gpus.sh
RANK="--reference $REFERENCE $RANK"
[ "$REFERENCE" = sampled ] || RANK+=" --reference_model_id $AGENT"
ready "$AGENT"
echo "What a step prints is in ${OUT#"$PWD"/}/logs."

# 1. Three dialogues of the untrained agent on each of 5,000 tasks. The agent plays in this process, in vLLM.
if [ -z "$DIALOGUES" ]; then
    DIALOGUES="$OUT/trajectories.jsonl"
    human_on "$DIALOGUES"
    step trajectories $BESIDE_HUMAN python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml \
        --agent_model "$AGENT" --env_model "$HUMAN" --hostname "$HUMAN_SERVER" --input_path "$TRAIN_TASKS" \
        --output_path "$DIALOGUES" --seed $((SEED + 1000)) $LIMIT $PLAY
    human_off
fi
# 2. Rewards by hidden unit tests; pairs of dialogues, as they were and with the reference solution for the critic.
step rewarded python scripts/evaluate_code.py --input_path "$DIALOGUES" --output_path "$OUT/rewarded.jsonl" \
    --tokenizer "$AGENT" --preference_path "$OUT/pairs.jsonl" \
    --ground_truth_preference_path "$OUT/pairs_with_c.jsonl" $LIMIT $GRADE

# 3. The critic: DPO on the dialogues with the reference solution, log-probs as means over turns.
step critic $LAUNCH scripts/train_dpo.py --config $CONFIGS/critic.yaml --pretrain "$AGENT" \
    --dataset "$OUT/pairs_with_c.jsonl" --save_path "$OUT/critic" --seed "$SEED" $TRAIN
# Baselines: imitate the dialogues that succeeded; DPO on whole dialogues.
step rft $LAUNCH scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --pretrain "$AGENT" \
    --dataset "$OUT/rewarded.jsonl" --save_path "$OUT/rft" --seed "$SEED" $TRAIN
step dpo $LAUNCH scripts/train_dpo.py --config $CONFIGS/multi_turn_dpo.yaml --pretrain "$AGENT" \
    --dataset "$OUT/pairs.jsonl" --save_path "$OUT/dpo" --seed "$SEED" $TRAIN
# 4. Sixteen candidates for each turn of a tenth of the tasks.
step candidates python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$OUT/rewarded.jsonl" --output_path "$OUT/candidates.jsonl"
# 5. Their order by the critic's advantage; and by PMI, the untrained agent's log-probs with the solution and without it.
step ranked rank_on_gpus "$OUT/ranked.jsonl" --config $CONFIGS/ranking.yaml --model_id "$OUT/critic" \
    --input_path "$OUT/candidates.jsonl" $RANK
step ranked_pmi rank_on_gpus "$OUT/ranked_pmi.jsonl" --config $CONFIGS/pmi_ranking.yaml --model_id "$AGENT" \
    --input_path "$OUT/candidates.jsonl"
for by in "" _pmi; do
    # 6. Turn pairs: one of the better half over one of the worse half.
    step turn_pairs$by python scripts/generate_random_pairs_from_ranks.py --config $CONFIGS/turn_pairs.yaml \
        --seed "$SEED" --input_path "$OUT/ranked$by.jsonl" --output_path "$OUT/turn_pairs$by.jsonl"
    # 7. The policy: DPO on the turn pairs.
    step sweet$by $LAUNCH scripts/train_dpo.py --config $CONFIGS/actor.yaml --pretrain "$AGENT" \
        --dataset "$OUT/turn_pairs$by.jsonl" --save_path "$OUT/sweet$by" --seed "$SEED" $TRAIN
done

# 8. Steps 1 and 2 on the test tasks, for the untrained agent (zero-shot) and the trained ones; their comparison.
human_on "$OUT"/{zero_shot,rft,dpo,sweet_pmi,sweet}.test.jsonl
for run in zero_shot rft dpo sweet_pmi sweet; do
    if [ $run = zero_shot ]; then model="$AGENT"; else model="$OUT/$run"; fi
    step $run.test $BESIDE_HUMAN python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml \
        --agent_model "$model" --env_model "$HUMAN" --hostname "$HUMAN_SERVER" --input_path "$TEST_TASKS" \
        --output_path "$OUT/$run.test.jsonl" --seed "$SEED" $LIMIT $PLAY
    step $run.graded python scripts/evaluate_code.py --input_path "$OUT/$run.test.jsonl" \
        --output_path "$OUT/$run.graded.jsonl" $GRADE
done
human_off
python scripts/compare_runs.py --baselines "zero-shot,multi-turn DPO" --output_path "$OUT/results.json" --overwrite \
    --runs "zero-shot=$OUT/zero_shot.graded.jsonl,rejection fine-tuning=$OUT/rft.graded.jsonl,\
multi-turn DPO=$OUT/dpo.graded.jsonl,turn pairs by PMI=$OUT/sweet_pmi.graded.jsonl,SWEET-RL=$OUT/sweet.graded.jsonl" \
    --markdown_path "$OUT/results.md" --paper table2
