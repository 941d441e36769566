#!/usr/bin/env bash
# The hard world with another agent and another draw of tasks: turn pairs by a gap, baselines with as many sampled tokens, and
# imitation of the own successes afterwards. A cell takes about 40 minutes on one core, an agent 20. Stopped, the same command continues.
#
#   bash lab/costs/run.sh                      the packaged agent (0), tasks of draw 201
#   MAKER=2 DRAW=202 bash lab/costs/run.sh     the agent of seed 2, other training and test tasks
#   PART=validation POLICIES="own-4 own-8 own-16" bash lab/costs/run.sh     tries on validation tasks
#   NUM_TRAIN=8 NUM_TEST=4 bash lab/costs/run.sh     every step on a handful of tasks
#
# Policies: zero_shot, rft and dpo (200 dialogues), pmi-gap and sweet-gap (their candidates too), rft_more and dpo_more (1,600
# dialogues), pmi-halves and sweet-halves (pairs of one of the better half over one of the worse), own-EPOCHS and again-EPOCHS
# (rejection fine-tuning of pmi-gap and of rft on 200 dialogues of their own), and then-EPOCHS, as own-EPOCHS but of pmi-halves.
# Other settings of a training stand behind its name: rft+max_steps=16, pmi-halves+beta=0.3+nll_loss_coef=0.01.
set -euo pipefail

MAKER="${MAKER:-0}" DRAW="${DRAW:-201}" NUM_TRAIN="${NUM_TRAIN:-50}" NUM_TEST="${NUM_TEST:-400}" PART="${PART:-test}" SEED=0
POLICIES="${POLICIES:-zero_shot rft dpo pmi-gap sweet-gap rft_more dpo_more own-16}"
ROOT="$(realpath -m "${OUT:-runs/costs}")"
OUT="$ROOT/agent$MAKER-draw$DRAW/seed$SEED" AGENT=mini_hard CONFIGS=configs/mini_hard
cd "$(dirname "$0")/../.."
# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

make_agent() { # make_agent NAME FLAGS: as the packaged one (sweet_rl/models/packaged/mini_hard), with another seed
    python -m lab.mini_agents.make_mini_agent --world hard --seed "$MAKER" --bf16 --save_path "$ROOT/agents/$MAKER/$1" "${@:2}"
}
if [ "$MAKER" != 0 ]; then
    AGENT="$ROOT/agents/$MAKER/agent"
    make_agent first --layers 4 --num_steps 2000
    make_agent agent --habits better --pretrain "$ROOT/agents/$MAKER/first" --num_steps 600 --lr 1.5e-3 --checkpoint_every 200
fi
python scripts/make_mini_tasks.py --world hard --seed "$DRAW" --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" --output_dir "$OUT/tasks"
python scripts/make_mini_tasks.py --world hard --seed 77 --num_train 1 --num_test 200 --output_dir "$OUT/validation"
tests="$OUT/tasks/test.jsonl"
[ "$PART" = test ] || tests="$OUT/validation/test.jsonl"

play() { # play NAME BEST_OF_N AGENT: steps 1 and 2 on the training tasks, and pairs of dialogues, with c too
    python scripts/simulate_interactions.py --config $CONFIGS/collection.yaml --best_of_n "$2" --agent_model "$3" \
        --seed $((SEED + 1000)) --input_path "$OUT/tasks/train.jsonl" --output_path "$OUT/$1.jsonl"
    python scripts/evaluate_code.py --input_path "$OUT/$1.jsonl" --k "$2" --output_path "$OUT/$1.rewarded.jsonl" \
        --preference_path "$OUT/$1.pairs.jsonl" --ground_truth_preference_path "$OUT/$1.pairs_with_c.jsonl"
}
imitate() { # imitate NAME DIALOGUES PRETRAIN FLAGS: rejection fine-tuning
    python scripts/train_sft.py --config $CONFIGS/rejection_fine_tuning.yaml --pretrain "$3" --dataset "$OUT/$2.rewarded.jsonl" \
        --save_path "$OUT/$1" --seed $SEED "${@:4}"
}
imitate_own() { # imitate_own MODEL: rejection fine-tuning of a policy on its own dialogues, for $policy: NAME-EPOCHS
    play "${policy%-*}" 4 "$OUT/$1"
    imitate "$policy" "${policy%-*}" "$OUT/$1" --max_steps none --max_epochs "${policy#*-}"
}
prefer() { # prefer NAME PAIRS CONFIG FLAGS: DPO
    python scripts/train_dpo.py --config $CONFIGS/"$3".yaml --pretrain "$AGENT" --dataset "$OUT/$2.jsonl" \
        --save_path "$OUT/$1" --seed $SEED "${@:4}"
}
ranked() { # ranked NAME FLAGS: steps 4 and 5
    python scripts/sample_best_of_n.py --config $CONFIGS/sampling.yaml --model_id "$AGENT" --seed $SEED \
        --input_path "$OUT/few.rewarded.jsonl" --output_path "$OUT/candidates.jsonl"
    python scripts/rank_best_of_n.py "${@:2}" --input_path "$OUT/candidates.jsonl" --output_path "$OUT/$1.ranked.jsonl"
}
paired() { # paired NAME RANKED-RULE FLAGS: steps 6 and 7
    python scripts/generate_random_pairs_from_ranks.py --config $CONFIGS/turn_pairs.yaml --rule "${2#*-}" --seed $SEED \
        --input_path "$OUT/${2%-*}.ranked.jsonl" --output_path "$OUT/$2.turn_pairs.jsonl"
    prefer "$1" "$2.turn_pairs" actor "${@:3}"
}
play few 4 "$AGENT"
for policy in $POLICIES; do
    began=$SECONDS model="$OUT/$policy" name="${policy%%+*}"
    flags="${policy#"$name"}" && flags="${flags//+/ --}" && read -ra flags <<<"${flags//=/ }"
    case "$name" in
        zero_shot) model="$AGENT" ;;
        rft) imitate "$policy" few "$AGENT" "${flags[@]}" ;;
        dpo) prefer "$policy" few.pairs multi_turn_dpo "${flags[@]}" ;;
        pmi-*)
            ranked pmi --critic_type pmi --critic_settings '{"normalize": "none"}' --model_id "$AGENT"
            paired "$policy" "$name" "${flags[@]}"
            ;;
        sweet-*)
            prefer critic few.pairs_with_c critic
            ranked sweet --config $CONFIGS/ranking.yaml --model_id "$OUT/critic"
            paired "$policy" "$name" "${flags[@]}"
            ;;
        rft_more)
            [ "${#flags[@]}" -gt 0 ] || flags=(--max_steps none --max_epochs 8)
            play many 32 "$AGENT" && imitate "$policy" many "$AGENT" "${flags[@]}"
            ;;
        dpo_more) play many 32 "$AGENT" && prefer dpo_more many.pairs multi_turn_dpo --max_steps none --max_epochs 2 --max_pairs_per_prompt 32 ;;
        own-*) imitate_own pmi-gap ;;
        then-*) imitate_own pmi-halves ;;
        again-*) imitate_own rft ;;
        *) echo "run.sh: unknown policy $policy" >&2 && exit 2 ;;
    esac
    python scripts/simulate_interactions.py --config $CONFIGS/evaluation.yaml --agent_model "$model" --seed $SEED \
        --input_path "$tests" --output_path "$OUT/$policy.$PART.jsonl"
    python scripts/evaluate_code.py --input_path "$OUT/$policy.$PART.jsonl" --output_path "$OUT/$policy.$PART.graded.jsonl" |
        grep '^success' | sed "s/^/agent $MAKER, draw $DRAW, $policy, $PART: /"
    echo "$policy: $((SECONDS - began)) s"
done
