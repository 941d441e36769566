#!/usr/bin/env bash
# Critics on the outcome of dialogues and on placebos, one world and seed. No policies. Stopped, the same command continues.
#
#   bash lab/pretraining/placebo.sh                            the quick world, seed 0
#   WORLD=hard SEED=1 LABELS="true longer" bash lab/pretraining/placebo.sh
#   NUM_TRAIN=16 NUM_HELD_OUT=4 bash lab/pretraining/placebo.sh   every step on a handful of tasks
set -euo pipefail

WORLD="${WORLD:-quick}" SEED="${SEED:-0}" NUM_TRAIN="${NUM_TRAIN:-200}" NUM_HELD_OUT="${NUM_HELD_OUT:-50}"
LABELS="${LABELS:-untrained true chance longer equal answered}"
OUT="$(realpath -m "${OUT:-runs/placebo}")/$WORLD"
RUN="$OUT/seed$SEED"
case "$WORLD" in
    hard) AGENT=mini_hard TASKS="--world hard" ;;
    *) AGENT=mini TASKS="" ;;
esac
CONFIGS=configs/$AGENT
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

# 1 and 2. Eight dialogues a training task, four a held-out one; 4. candidates of the held-out ones.
# shellcheck disable=SC2086 # TASKS is several words or none
python scripts/make_mini_tasks.py $TASKS --seed $((SEED + 200)) --num_train "$NUM_TRAIN" --num_test "$NUM_HELD_OUT" \
    --output_dir "$RUN/tasks"
dialogues() { # dialogues NAME BEST_OF_N SEED
    python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml --agent_model $AGENT --best_of_n "$2" \
        --seed "$3" --input_path "$RUN/tasks/$1.jsonl" --output_path "$RUN/$1.jsonl"
    python scripts/evaluate_code.py --input_path "$RUN/$1.jsonl" --output_path "$RUN/$1.graded.jsonl" \
        --ground_truth_preference_path "$RUN/$1.pairs.jsonl" >/dev/null
}
dialogues train 8 $((SEED + 1000))
dialogues test 4 $((SEED + 2000))
python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id $AGENT --seed "$SEED" \
    --input_path "$RUN/test.graded.jsonl" --output_path "$RUN/candidates.jsonl"
# 3. Equally many pairs of each label; 5. the critics' scores with the paper's reference and without c in it, as in the release.
python -m lab.pretraining.placebo_pairs --input_path "$RUN/train.pairs.jsonl" --output_dir "$RUN" --seed "$SEED"
for label in $LABELS; do
    began=$SECONDS model="$RUN/$label" references="seed seed_without_c"
    if [ "$label" = untrained ]; then
        model=$AGENT references=seed_without_c # with the paper's reference all of its scores are 0
    else
        python scripts/train_dpo.py --config $CONFIGS/critic.yaml --max_pairs_per_prompt 8 --pretrain $AGENT \
            --dataset "$RUN/$label.pairs.jsonl" --save_path "$model" --seed "$SEED"
    fi
    for reference in $references; do
        how=(--model_id "$model" --reference "$reference" --reference_model_id "$AGENT" --normalize turn)
        name="$RUN/$label-$reference"
        python scripts/rank_best_of_n.py "${how[@]}" --input_path "$RUN/candidates.jsonl" --output_path "$name.ranked.jsonl"
        python scripts/score_turns.py "${how[@]}" --input_path "$RUN/test.graded.jsonl" --output_path "$name.credited.jsonl"
        python -m lab.pretraining.measure --ranked_path "$name.ranked.jsonl" --credited_path "$name.credited.jsonl" \
            --output_path "$name.json"
    done
    echo "$label: $((SECONDS - began)) s"
done
