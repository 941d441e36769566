#!/usr/bin/env bash
# The method with a small pretrained chat model as agent, on the quick mini world, one seed: rows of Tables 2 and 3.
# About four hours on two cores; a training takes up to 6 GB of memory. Stopped at any point, the same command continues.
#
#   bash lab/smollm2/run.sh
#   MODEL=FOLDER OUT=runs/other bash lab/smollm2/run.sh     another chat model of the Llama family
set -euo pipefail

SEED="${SEED:-0}" MODEL="${MODEL:-HuggingFaceTB/SmolLM2-135M-Instruct}"
OUT="$(realpath -m "${OUT:-runs/smollm2}")" # where everything is written
[ ! -d "$MODEL" ] || MODEL="$(realpath "$MODEL")"
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
AGENT="$OUT/agent" CONFIGS=lab/smollm2/configs

# 0. Tasks, and the agent: the chat model imitates the dialogues of a poor agent.
python scripts/make_mini_tasks.py --num_train 50 --num_test 200 --output_dir "$OUT/tasks"
python -m lab.smollm2.make_chat_agent --save_path "$AGENT" --pretrain "$MODEL" --bf16 --habits better \
    --lr 2e-4 --batch_size 8 --num_steps 300 --checkpoint_every 50
# 1 and 2. Dialogues, rewards, and pairs of dialogues.
python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml --agent_model "$AGENT" \
    --input_path "$OUT/tasks/train.jsonl" --output_path "$OUT/trajectories.jsonl" --seed $((SEED + 1000))
python scripts/evaluate_code.py --input_path "$OUT/trajectories.jsonl" --output_path "$OUT/rewarded.jsonl" --k 4 \
    --preference_path "$OUT/pairs.jsonl" --ground_truth_preference_path "$OUT/pairs_with_c.jsonl"

# Baselines: imitate the dialogues that succeeded; DPO on whole dialogues.
python scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --pretrain "$AGENT" \
    --dataset "$OUT/rewarded.jsonl" --save_path "$OUT/rft" --seed "$SEED"
python scripts/train_dpo.py --config $CONFIGS/multi_turn_dpo.yaml --pretrain "$AGENT" \
    --dataset "$OUT/pairs.jsonl" --save_path "$OUT/dpo" --seed "$SEED"

# 4. Candidates for each turn.
python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$OUT/rewarded.jsonl" --output_path "$OUT/candidates.jsonl"
# 3 and 5. Critics with the mean over a turn's tokens (sweet), and with their sum.
critic() { # critic NAME [--normalize HOW]
    python scripts/train_dpo.py --config $CONFIGS/critic.yaml --pretrain "$AGENT" --dataset "$OUT/pairs_with_c.jsonl" \
        --save_path "$OUT/critic_$1" --seed "$SEED" "${@:2}"
    python scripts/rank_best_of_n.py --config $CONFIGS/ranking.yaml --model_id "$OUT/critic_$1" \
        --input_path "$OUT/candidates.jsonl" --output_path "$OUT/ranked_$1.jsonl" "${@:2}"
}
critic sweet
critic sum --normalize none
# 6 and 7. Turn pairs, and the policies that are trained on them.
for name in sweet sum; do
    python scripts/generate_random_pairs_from_ranks.py --config $CONFIGS/turn_pairs.yaml --seed "$SEED" \
        --input_path "$OUT/ranked_$name.jsonl" --output_path "$OUT/turn_pairs_$name.jsonl"
    python scripts/train_dpo.py --config $CONFIGS/actor.yaml --pretrain "$AGENT" \
        --dataset "$OUT/turn_pairs_$name.jsonl" --save_path "$OUT/$name" --seed "$SEED"
done

# 8. Steps 1 and 2 on the test tasks, also for the agent itself.
for name in zero_shot rft dpo sweet sum; do
    run="$OUT/$name" model="$OUT/$name"
    [ "$name" != zero_shot ] || model="$AGENT"
    python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml --agent_model "$model" \
        --input_path "$OUT/tasks/test.jsonl" --output_path "$run.test.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$run.test.jsonl" --output_path "$run.graded.jsonl"
done
python scripts/compare_runs.py --overwrite --output_path "$OUT/table2.json" --markdown_path "$OUT/table2.md" \
    --paper table2 --baselines zero-shot --chains "SWEET-RL>multi-turn DPO>rejection fine-tuning>zero-shot" \
    --runs "zero-shot=$OUT/zero_shot.graded.jsonl,rejection fine-tuning=$OUT/rft.graded.jsonl,\
multi-turn DPO=$OUT/dpo.graded.jsonl,SWEET-RL=$OUT/sweet.graded.jsonl"
python scripts/compare_runs.py --overwrite --output_path "$OUT/table3.json" --markdown_path "$OUT/table3.md" \
    --paper table3 --baselines SWEET-RL \
    --runs "SWEET-RL=$OUT/sweet.graded.jsonl,without length normalisation=$OUT/sum.graded.jsonl"
python -m lab.critics.measure_mini_credit --overwrite --output_path "$OUT/credit.json" --markdown_path "$OUT/credit.md" \
    --runs "SWEET-RL=$OUT/ranked_sweet.jsonl,without length normalisation=$OUT/ranked_sum.jsonl"
echo "written: $OUT/table2.md, table3.md, credit.md; $SECONDS s in all"
