#!/usr/bin/env bash
# The method with a small pretrained chat model as agent, on the quick mini world, one seed: rows of Tables 2 and 3.
# About four hours on two cores; a training takes up to 6 GB of memory. Stopped at any point, the same command continues.
#
#   bash lab/smollm2/run.sh
#   MODEL=FOLDER OUT=runs/other bash lab/smollm2/run.sh     another chat model of the Llama family
set -euo pipefail

SEED="${SEED:-0}" MODEL="${MODEL:-HuggingFaceTB/SmolLM2-135M-Instruct}"
RUN="$(realpath -m "${OUT:-runs/smollm2}")" # where everything is written
[ ! -d "$MODEL" ] || MODEL="$(realpath "$MODEL")"
AGENT="$RUN/agent" CONFIGS=lab/smollm2/configs HF_HUB_OFFLINE=0 # the chat model may have to be downloaded
export OMP_NUM_THREADS=1
# shellcheck source-path=SCRIPTDIR source=../steps.sh
source "$(dirname "$0")/../steps.sh"

# Tasks, and the agent: the chat model imitates the dialogues of a poor agent.
python scripts/make_mini_tasks.py --num_train 50 --num_test 200 --output_dir "$RUN/tasks"
python -m lab.smollm2.make_chat_agent --save_path "$AGENT" --pretrain "$MODEL" --bf16 --habits better \
    --lr 2e-4 --batch_size 8 --num_steps 300 --checkpoint_every 50
play few "$RUN/tasks/train" 4 "$AGENT"
imitate rft few.graded "$AGENT"
prefer dpo few.pairs multi_turn_dpo
sample few.graded
policy() { # policy NAME [--normalize HOW]: a critic with the mean over a turn's tokens, or with their sum, and its policy
    prefer "critic_$1" few.pairs_with_c critic "${@:2}"
    rank "$1" candidates --config $CONFIGS/ranking.yaml --model_id "$RUN/critic_$1" "${@:2}"
    pair "$1" halves
    prefer "$1" "$1-halves.turn_pairs" actor
}
policy sweet
policy sum --normalize none
evaluate zero_shot.test "$AGENT" "$RUN/tasks/test"
for name in rft dpo sweet sum; do
    evaluate "$name.test" "$RUN/$name" "$RUN/tasks/test"
done
python scripts/compare_runs.py --overwrite --output_path "$RUN/table2.json" --markdown_path "$RUN/table2.md" \
    --paper table2 --baselines zero-shot --chains "SWEET-RL>multi-turn DPO>rejection fine-tuning>zero-shot" \
    --runs "zero-shot=$RUN/zero_shot.test.graded.jsonl,rejection fine-tuning=$RUN/rft.test.graded.jsonl,\
multi-turn DPO=$RUN/dpo.test.graded.jsonl,SWEET-RL=$RUN/sweet.test.graded.jsonl"
python scripts/compare_runs.py --overwrite --output_path "$RUN/table3.json" --markdown_path "$RUN/table3.md" \
    --paper table3 --baselines SWEET-RL \
    --runs "SWEET-RL=$RUN/sweet.test.graded.jsonl,without length normalisation=$RUN/sum.test.graded.jsonl"
python -m lab.critics.measure_mini_credit --overwrite --output_path "$RUN/credit.json" --markdown_path "$RUN/credit.md" \
    --runs "SWEET-RL=$RUN/sweet.ranked.jsonl,without length normalisation=$RUN/sum.ranked.jsonl"
