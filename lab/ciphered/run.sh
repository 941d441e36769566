#!/usr/bin/env bash
# Critics of ciphered tasks, one cell: one cipher, one seed (of agent, tasks and trainings), one kind of replies.
# About 25 minutes on one core. Stopped at any point, the same command continues.
#
#   bash lab/ciphered/run.sh                                    cipher 1, seed 1, silent replies
#   CIPHER=2 SEED=3 REPLIES=revealing bash lab/ciphered/run.sh
#   REPLIES=revealing_clue CRITICS="beta0.1-kl0 beta1-kl0.3" bash lab/ciphered/run.sh   other beta, other weight of the KL
#   CRITICS="equation2 kl" NUM_TASKS=400 bash lab/ciphered/run.sh   these critics only; fewer dialogues
#   NUM_TASKS=8 NUM_HELD_OUT=4 STEPS=20 bash lab/ciphered/run.sh         every step on a handful of tasks
set -euo pipefail

CIPHER="${CIPHER:-1}" SEED="${SEED:-1}" REPLIES="${REPLIES:-silent}"
NUM_TASKS="${NUM_TASKS:-1600}" NUM_HELD_OUT="${NUM_HELD_OUT:-100}" STEPS="${STEPS:-600}" # 8 dialogues a training task
CRITICS="${CRITICS:-untrained equation2 kl shuffled}"
OUT="$(realpath -m "${OUT:-runs/ciphered}")" CONFIGS=lab/ciphered/configs # OUT: the agents, and a folder for each cell
AGENT="$OUT/agent$SEED" RUN="$OUT/cipher$CIPHER-seed$SEED-$REPLIES-$NUM_TASKS"
# shellcheck source-path=SCRIPTDIR source=../steps.sh
source "$(dirname "$0")/../steps.sh"
DOMAIN=(--task_type lab/ciphered/domain.py)

measure() { # measure NAME CRITIC FLAGS: step 5, and the credit of dialogues, on held-out combinations of topics
    local how=(--model_id "$2" --reference_model_id "$AGENT" --normalize turn "${@:3}")
    rank "$1" candidates "${how[@]}"
    python scripts/score_turns.py "${how[@]}" --input_path "$RUN/held_out.graded.jsonl" --output_path "$RUN/$1.credited.jsonl"
    python scripts/score_turns.py "${how[@]}" --input_path "$RUN/held_out.exchanged.jsonl" --output_path "$RUN/$1.exchanged.jsonl"
    python -m lab.ciphered.measure --ranked_path "$RUN/$1.ranked.jsonl" --credited_path "$RUN/$1.credited.jsonl" \
        --exchanged_path "$RUN/$1.exchanged.jsonl" --output_path "$RUN/$1.json"
}
collect() { # collect PART NUMBER OF TASKS BEST_OF_N SEED: tasks, and their dialogues by steps 1 and 2
    python -m lab.ciphered.tasks --output_path "$RUN/$1.tasks.jsonl" --num_tasks "$2" --seed "$SEED" --cipher "$CIPHER" --part "$1" \
        --replies "$REPLIES"
    dialogues "$1" dialogues "$AGENT" "$1.tasks" "$4" --best_of_n "$3"
    grade "$1" --ground_truth_preference_path "$RUN/$1.pairs.jsonl"
}

# The agent, which was never taught what a cipher word means; dialogues, and candidates of the held-out tasks.
mkdir -p "$RUN"
python -m lab.ciphered.make_agent --save_path "$AGENT" --seed "$SEED" --num_steps "$STEPS"
collect train "$NUM_TASKS" 8 $((SEED + 1000))
collect held_out "$NUM_HELD_OUT" 4 $((SEED + 2000))
python -m lab.ciphered.shuffle_c --dialogues --input_path "$RUN/held_out.graded.jsonl" --output_path "$RUN/held_out.exchanged.jsonl"
sample held_out.graded
for name in $CRITICS; do
    if [ "$name" = untrained ]; then
        measure untrained "$AGENT" --reference seed_without_c
        continue
    fi
    case "$name" in
        equation2) prefer equation2 train.pairs critic ;;
        shuffled) # each task gets the c of another one
            python -m lab.ciphered.shuffle_c --input_path "$RUN/train.pairs.jsonl" --output_path "$RUN/shuffled.pairs.jsonl"
            prefer shuffled shuffled.pairs critic
            ;;
        kl) prefer kl train.pairs critic --kl_coef 1.0 ;;
        beta*-kl*) prefer "$name" train.pairs critic --beta "$(cut -d- -f1 <<<"${name#beta}")" --kl_coef "${name#*-kl}" ;;
        *) echo "run.sh: unknown critic $name" >&2 && exit 2 ;;
    esac
    measure "$name" "$RUN/$name" --reference seed
done
