#!/usr/bin/env bash
# An agent of the hard world that imitates 10,000 perfect dialogues, and its success on validation or test tasks. Some
# ten CPU minutes with 1M parameters, an hour with 4M. Stopped, the same command continues from the last checkpoint.
#
#   SIZE=1M LR=1.5e-3 STEPS=156 bash lab/ceiling/run.sh                 a try of a learning rate, on validation tasks
#   SIZE=4M LR=3e-3 PART=test bash lab/ceiling/run.sh                   the declared run
#   SIZE=1M DIALOGUES=64 STEPS=2 NUM_TEST=4 bash lab/ceiling/run.sh     every step on a handful of tasks
set -euo pipefail

SIZE="${SIZE:-1M}" LR="${LR:-1.5e-3}" PART="${PART:-validation}" NUM_TEST="${NUM_TEST:-}" DIALOGUES="${DIALOGUES:-10000}"
OUT="$(realpath -m "${OUT:-runs/ceiling}")"
case "$SIZE" in
    1M) STEPS="${STEPS:-626}" START=(--pretrain mini_hard) ;;        # two epochs
    4M) STEPS="${STEPS:-1878}" START=(--layers 4 --width 256) ;;     # six epochs
    *) echo "run.sh: unknown size $SIZE (1M or 4M)" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
model="$OUT/$SIZE-$LR-$STEPS"

# The test tasks of results/mini_hard, and validation tasks apart from them.
python scripts/make_mini_tasks.py --world hard --seed 1 --num_train 50 --num_test "${NUM_TEST:-400}" --output_dir "$OUT/test"
python scripts/make_mini_tasks.py --world hard --seed 77 --num_train 1 --num_test "${NUM_TEST:-200}" \
    --apart_from "$OUT/test/test.jsonl" --output_dir "$OUT/validation"
python -m lab.ceiling.imitate "${START[@]}" --apart_from "$OUT/test/test.jsonl,$OUT/validation/test.jsonl" --bf16 \
    --dialogues "$DIALOGUES" --num_steps "$STEPS" --lr "$LR" --checkpoint_every 78 --save_path "$model"
python scripts/simulate_interactions.py --config configs/mini_hard/evaluation.yaml --agent_model "$model" --seed 0 \
    --input_path "$OUT/$PART/test.jsonl" --output_path "$model.$PART.jsonl"
python scripts/evaluate_code.py --input_path "$model.$PART.jsonl" --output_path "$model.$PART.graded.jsonl" |
    grep '^success' | sed "s/^/$SIZE, learning rate $LR, $STEPS steps, $PART: /"
