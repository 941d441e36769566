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
ROOT="$(realpath -m "${OUT:-runs/ciphered}")" # the agents, and a folder for each cell
AGENT="$ROOT/agent$SEED" OUT="$ROOT/cipher$CIPHER-seed$SEED-$REPLIES-$NUM_TASKS"
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
DOMAIN=lab/ciphered/domain.py CONFIGS=lab/ciphered/configs
mkdir -p "$OUT"

dialogues() { # dialogues NAME BEST_OF_N SEED: steps 1 and 2 on $OUT/NAME.tasks.jsonl
    python scripts/simulate_interactions.py --config $CONFIGS/dialogues.yaml --task_type $DOMAIN --agent_model "$AGENT" \
        --best_of_n "$2" --seed "$3" --input_path "$OUT/$1.tasks.jsonl" --output_path "$OUT/$1.jsonl"
    python scripts/evaluate_code.py --task_type $DOMAIN --input_path "$OUT/$1.jsonl" \
        --output_path "$OUT/$1.graded.jsonl" --ground_truth_preference_path "$OUT/$1.pairs.jsonl"
}
critic() { # critic NAME PAIRS FLAGS: step 3 by equation 2
    python scripts/train_dpo.py --config $CONFIGS/critic.yaml --pretrain "$AGENT" --dataset "$OUT/$2.pairs.jsonl" \
        --save_path "$OUT/$1" --seed "$SEED" "${@:3}"
}
measure() { # measure NAME CRITIC FLAGS: step 5, and the credit of dialogues, on held-out combinations of topics
    local how=(--model_id "$2" --reference_model_id "$AGENT" --normalize turn "${@:3}")
    python scripts/rank_best_of_n.py "${how[@]}" --input_path "$OUT/candidates.jsonl" --output_path "$OUT/$1.ranked.jsonl"
    python scripts/score_turns.py "${how[@]}" --input_path "$OUT/held_out.graded.jsonl" --output_path "$OUT/$1.credited.jsonl"
    python scripts/score_turns.py "${how[@]}" --input_path "$OUT/held_out.exchanged.jsonl" --output_path "$OUT/$1.exchanged.jsonl"
    python -m lab.ciphered.measure --ranked_path "$OUT/$1.ranked.jsonl" --credited_path "$OUT/$1.credited.jsonl" \
        --exchanged_path "$OUT/$1.exchanged.jsonl" --output_path "$OUT/$1.json"
}

# 0. The agent, which was never taught what a cipher word means, and the tasks.
python -m lab.ciphered.make_agent --save_path "$AGENT" --seed "$SEED" --num_steps "$STEPS"
for part in train held_out; do
    [ "$part" = train ] && number=$NUM_TASKS || number=$NUM_HELD_OUT
    python -m lab.ciphered.tasks --output_path "$OUT/$part.tasks.jsonl" --num_tasks "$number" --seed "$SEED" \
        --cipher "$CIPHER" --part $part --replies "$REPLIES"
done
# 1, 2 and 4. Dialogues, their pairs, and candidates of the held-out tasks.
dialogues train 8 $((SEED + 1000))
dialogues held_out 4 $((SEED + 2000))
python -m lab.ciphered.shuffle_c --dialogues --input_path "$OUT/held_out.graded.jsonl" --output_path "$OUT/held_out.exchanged.jsonl"
python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed "$SEED" \
    --input_path "$OUT/held_out.graded.jsonl" --output_path "$OUT/candidates.jsonl"
# 3 and 5. The critics.
for name in $CRITICS; do
    began=$SECONDS
    case "$name" in
        untrained) measure untrained "$AGENT" --reference seed_without_c && continue ;;
        equation2) critic equation2 train ;;
        shuffled) # each task gets the c of another one
            python -m lab.ciphered.shuffle_c --input_path "$OUT/train.pairs.jsonl" --output_path "$OUT/shuffled.pairs.jsonl"
            critic shuffled shuffled
            ;;
        kl) critic kl train --kl_coef 1.0 ;;
        beta*-kl*) critic "$name" train --beta "$(cut -d- -f1 <<<"${name#beta}")" --kl_coef "${name#*-kl}" ;;
        *) echo "run.sh: unknown critic $name" >&2 && exit 2 ;;
    esac
    measure "$name" "$OUT/$name" --reference seed
    echo "$name: $((SECONDS - began)) s"
done
