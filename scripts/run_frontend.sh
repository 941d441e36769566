#!/usr/bin/env bash
# Frontend Design with the paper's settings (configs/paper/frontend), on a machine with eight GPUs of 80 GB and a browser, in
# an environment with pip install -c constraints-gpu.txt -e '.[vllm,deepspeed,frontend]'. Stopped at any point, the same command
# continues.
#
#   python scripts/prepare_websight.py --output_dir data/frontend_tasks
#   HUMAN_GPUS=0,1,2,3 NUM_TASKS=16 OUT=runs/trial bash scripts/run_frontend.sh      the real models on 16 tasks
#   HUMAN_GPUS=0,1,2,3 bash scripts/run_frontend.sh      everything; the human's server has four GPUs during dialogues
#   HUMAN_SERVER=node1:8000 bash scripts/run_frontend.sh the same with a server elsewhere:
#       vllm serve Qwen/Qwen2-VL-72B-Instruct --tensor-parallel-size 4 --limit-mm-per-prompt '{"image": 2}' \
#           --mm-processor-kwargs '{"max_pixels": 1003520}'
#
# TRAIN_FLAGS, PLAY_FLAGS, GRADE_FLAGS, RANK_FLAGS: more flags of every training, dialogue step, grading and ranking. The variables
# of GPUs and the human's server: gpus.sh. lab/pages has a run without a GPU.
# shellcheck disable=SC2034,SC2086 # variables of gpus.sh; launchers and flags are several words or none
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "$0")/steps.sh"

RECIPE=run_frontend.sh
HUMAN="${HUMAN:-Qwen/Qwen2-VL-72B-Instruct}"
HUMAN_FLAGS="${HUMAN_FLAGS:---limit-mm-per-prompt {\"image\":2\} --mm-processor-kwargs {\"max_pixels\":1003520\}}"
AGENT="${AGENT:-meta-llama/Llama-3.1-8B-Instruct}" CRITIC="${CRITIC:-Qwen/Qwen2-VL-7B-Instruct}" # that the critic starts from
TRAIN_TASKS="$(path "${TRAIN_TASKS:-data/frontend_tasks/train.jsonl}")"
TEST_TASKS="$(path "${TEST_TASKS:-data/frontend_tasks/test.jsonl}")"
OUT="$(path "${OUT:-runs/frontend}")" SEED="${SEED:-0}" CONFIGS=configs/paper/frontend
PROTOCOL_FILES="${PROTOCOL_FILES:+$(path "$PROTOCOL_FILES")}"
TRAIN="${TRAIN_FLAGS:-}" RANK="${RANK_FLAGS:-}" LIMIT="${NUM_TASKS:+--num_tasks $NUM_TASKS}"
cd "$(dirname "$0")/.."
# shellcheck source-path=SCRIPTDIR source=gpus.sh
source scripts/gpus.sh
GRADE+=" ${GRADE_FLAGS:-}" BESIDE_PAPER="--paper table2"
case "$GRADE" in *--image_encoder*) BESIDE_PAPER="" ;; esac # similarities on another scale than the paper's
ready "$AGENT" "$CRITIC"
echo "What a step prints is in ${OUT#"$PWD"/}/logs."

# 1. Six dialogues of the untrained agent on each of 1,000 tasks. The agent plays in this process, in vLLM.
human_on "$OUT/trajectories.jsonl"
step trajectories $BESIDE_HUMAN python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml \
    --agent_model "$AGENT" --env_model "$HUMAN" --hostname "$HUMAN_SERVER" --input_path "$TRAIN_TASKS" \
    --output_path "$OUT/trajectories.jsonl" --seed $((SEED + 1000)) $LIMIT $PLAY
human_off
# 2. Rewards by the likeness of the pages; pairs of dialogues a tenth apart, and the best dialogue of each task.
step rewarded python scripts/evaluate_html.py --config $CONFIGS/grading.yaml --tokenizer "$AGENT" \
    --input_path "$OUT/trajectories.jsonl" --output_path "$OUT/rewarded.jsonl" --best_path "$OUT/best.jsonl" \
    --preference_path "$OUT/pairs.jsonl" --ground_truth_preference_path "$OUT/pairs_with_c.jsonl" $GRADE

# 3. The critic: a value head on a vision model that is shown the reference page. (One that reads its HTML instead:
#    train_dpo.py --config $CONFIGS/critic.yaml on pairs_with_c.jsonl, and ranking.yaml in step 5.)
step critic $LAUNCH scripts/train_value.py --config $CONFIGS/value_critic.yaml --pretrain "$CRITIC" \
    --dataset "$OUT/rewarded.jsonl" --save_path "$OUT/critic" --seed "$SEED" $TRAIN
# Baselines: imitate the best dialogues; DPO on whole dialogues.
step rft $LAUNCH scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --pretrain "$AGENT" \
    --dataset "$OUT/best.jsonl" --save_path "$OUT/rft" --seed "$SEED" $TRAIN
step dpo $LAUNCH scripts/train_dpo.py --config $CONFIGS/multi_turn_dpo.yaml --pretrain "$AGENT" \
    --dataset "$OUT/pairs.jsonl" --save_path "$OUT/dpo" --seed "$SEED" $TRAIN
# 4. Sixteen candidates for each turn of a tenth of the tasks.
step candidates python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$OUT/rewarded.jsonl" --output_path "$OUT/candidates.jsonl"
# 5. Their order by the critic.
step ranked rank_on_gpus "$OUT/ranked.jsonl" --config $CONFIGS/value_ranking.yaml --model_id "$OUT/critic" \
    --input_path "$OUT/candidates.jsonl" $RANK
# 6. Turn pairs: one of the better half over one of the worse half.
step turn_pairs python scripts/generate_random_pairs_from_ranks.py --config $CONFIGS/turn_pairs.yaml --seed "$SEED" \
    --input_path "$OUT/ranked.jsonl" --output_path "$OUT/turn_pairs.jsonl"
# 7. The policy of SWEET-RL: DPO on the turn pairs.
step sweet $LAUNCH scripts/train_dpo.py --config $CONFIGS/actor.yaml --pretrain "$AGENT" \
    --dataset "$OUT/turn_pairs.jsonl" --save_path "$OUT/sweet" --seed "$SEED" $TRAIN

# 8. Steps 1 and 2 on the test tasks, for the untrained agent (zero-shot) and the three trained ones; their comparison.
human_on "$OUT"/{zero_shot,rft,dpo,sweet}.test.jsonl
for run in zero_shot rft dpo sweet; do
    if [ $run = zero_shot ]; then model="$AGENT"; else model="$OUT/$run"; fi
    step $run.test $BESIDE_HUMAN python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml \
        --agent_model "$model" --env_model "$HUMAN" --hostname "$HUMAN_SERVER" --input_path "$TEST_TASKS" \
        --output_path "$OUT/$run.test.jsonl" --seed "$SEED" $LIMIT $PLAY
    step $run.graded python scripts/evaluate_html.py --config $CONFIGS/grading.yaml --input_path "$OUT/$run.test.jsonl" \
        --output_path "$OUT/$run.graded.jsonl" $GRADE
done
human_off
python scripts/compare_runs.py --baselines "zero-shot,multi-turn DPO" --output_path "$OUT/results.json" --overwrite \
    --runs "zero-shot=$OUT/zero_shot.graded.jsonl,rejection fine-tuning=$OUT/rft.graded.jsonl,\
multi-turn DPO=$OUT/dpo.graded.jsonl,SWEET-RL=$OUT/sweet.graded.jsonl" --markdown_path "$OUT/results.md" $BESIDE_PAPER
