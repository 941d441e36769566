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
# 3 and 5. Critics with the mean over a turn's tokens (sweet), their sum, and one mean for the dialogue.
critic() { # critic NAME [--normalize HOW]
    python scripts/train_dpo.py --config $CONFIGS/critic.yaml --pretrain "$AGENT" --dataset "$OUT/pairs_with_c.jsonl" \
        --save_path "$OUT/critic_$1" --seed "$SEED" "${@:2}"
    local how=("${@:2}")
    rank "$1" --model_id "$OUT/critic_$1" "${how[@]/trajectory/turn}" # because one turn has one mean
}
rank() { # rank NAME FLAGS
    python scripts/rank_best_of_n.py --config $CONFIGS/ranking.yaml --input_path "$OUT/candidates.jsonl" \
        --output_path "$OUT/ranked_$1.jsonl" "${@:2}"
}
critic sweet
critic sum --normalize none
critic one_mean --normalize trajectory
rank untrained_sum --model_id "$AGENT" --reference_model_id "$AGENT" --normalize none
# 6 and 7. Turn pairs, and the policies that are trained on them.
for name in sweet sum one_mean untrained_sum; do
    python scripts/generate_random_pairs_from_ranks.py --config $CONFIGS/turn_pairs.yaml --seed "$SEED" \
        --input_path "$OUT/ranked_$name.jsonl" --output_path "$OUT/turn_pairs_$name.jsonl"
    python scripts/train_dpo.py --config $CONFIGS/actor.yaml --pretrain "$AGENT" \
        --dataset "$OUT/turn_pairs_$name.jsonl" --save_path "$OUT/$name" --seed "$SEED"
done

# 8. Steps 1 and 2 on the test tasks, also for the agent itself with one turn and with all turns.
for name in single_turn zero_shot rft dpo sweet sum one_mean untrained_sum; do
    run="$OUT/$name" model="$OUT/$name" config=evaluation
    case $name in single_turn) model="$AGENT" config=single_turn ;; zero_shot) model="$AGENT" ;; esac
    python scripts/simulate_interactions.py --config $CONFIGS/$config.yaml --agent_model "$model" \
        --input_path "$OUT/tasks/test.jsonl" --output_path "$run.test.jsonl" --seed "$SEED"
    python scripts/evaluate_code.py --input_path "$run.test.jsonl" --output_path "$run.graded.jsonl"
done
graded() { echo "$1=$OUT/$2.graded.jsonl"; }
compare() { # compare TABLE FLAGS
    python scripts/compare_runs.py --overwrite --output_path "$OUT/$1.json" --markdown_path "$OUT/$1.md" "${@:2}"
}
SWEET="$(graded SWEET-RL sweet)" LENGTHS="$(graded "without length normalisation" sum),$(graded "one mean for the dialogue" one_mean)"
DPO="$(graded "multi-turn DPO" dpo)"
compare table2 --paper table2 --baselines zero-shot --chains "SWEET-RL>multi-turn DPO>rejection fine-tuning>zero-shot" \
    --runs "$(graded "single turn" single_turn),$(graded zero-shot zero_shot),$(graded "rejection fine-tuning" rft),$DPO,$SWEET"
compare table3 --paper table3 --baselines SWEET-RL --runs "$SWEET,$LENGTHS"
compare sums --baselines "multi-turn DPO" --runs "$DPO,$SWEET,$LENGTHS,$(graded "untrained critic (sum)" untrained_sum)"
python -m lab.critics.measure_mini_credit --overwrite --output_path "$OUT/credit.json" --markdown_path "$OUT/credit.md" \
    --runs "SWEET-RL=$OUT/ranked_sweet.jsonl,without length normalisation=$OUT/ranked_sum.jsonl,\
one mean for the dialogue=$OUT/ranked_one_mean.jsonl,untrained critic (sum)=$OUT/ranked_untrained_sum.jsonl"
echo "written: $OUT/table2.md, table3.md, sums.md, credit.md; $SECONDS s in all"
