#!/usr/bin/env bash
# The hard world with another agent and another draw of tasks: turn pairs by a gap, baselines with as many sampled tokens, and
# imitation of the own successes afterwards. A cell takes about 40 minutes on one core, an agent 20 to 150 (the latter without bfloat16). Stopped, the same command continues.
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
OUT="$(realpath -m "${OUT:-runs/costs}")" AGENT=mini_hard CONFIGS=configs/mini_hard
RUN="$OUT/agent$MAKER-draw$DRAW/seed$SEED"
# shellcheck source-path=SCRIPTDIR source=../steps.sh
source "$(dirname "$0")/../steps.sh"

make_agent() { # make_agent NAME FLAGS: as the packaged one (sweet_rl/models/packaged/mini_hard), with another seed
    local fast=() # bfloat16 is five times slower on a core that lacks it
    ! grep -qE "amx_bf16|avx512_bf16" /proc/cpuinfo || fast=(--bf16)
    python -m lab.mini_agents.make_mini_agent --world hard --seed "$MAKER" "${fast[@]}" --save_path "$OUT/agents/$MAKER/$1" "${@:2}"
}
if [ "$MAKER" != 0 ]; then
    AGENT="$OUT/agents/$MAKER/agent"
    make_agent first --layers 4 --num_steps 2000
    make_agent agent --habits better --pretrain "$OUT/agents/$MAKER/first" --num_steps 600 --lr 1.5e-3 --checkpoint_every 200
fi
python scripts/make_mini_tasks.py --world hard --seed "$DRAW" --num_train "$NUM_TRAIN" --num_test "$NUM_TEST" --output_dir "$RUN/tasks"
python scripts/make_mini_tasks.py --world hard --seed 77 --num_train 1 --num_test 200 --output_dir "$RUN/validation"
tests="$RUN/tasks/test" train="$RUN/tasks/train"
[ "$PART" = test ] || tests="$RUN/validation/test"

imitate_own() { # imitate_own MODEL: rejection fine-tuning of a policy on its own dialogues, for $policy: NAME-EPOCHS
    play "${policy%-*}" "$train" 4 "$RUN/$1"
    imitate "$policy" "${policy%-*}.graded" "$RUN/$1" --max_steps none --max_epochs "${policy#*-}"
}
from_turn_pairs() { # from_turn_pairs CRITIC FLAGS OF RANKING: a policy by the rule behind CRITIC- in $name
    sample few.graded
    rank "$1" candidates "${@:2}"
    pair "$1" "${name#*-}"
    prefer "$policy" "$name.turn_pairs" actor "${flags[@]}"
}
play few "$train" 4 "$AGENT"
for policy in $POLICIES; do
    model="$RUN/$policy" name="${policy%%+*}"
    flags="${policy#"$name"}" && flags="${flags//+/ --}" && read -ra flags <<<"${flags//=/ }"
    case "$name" in
        zero_shot) model="$AGENT" ;;
        rft) imitate "$policy" few.graded "$AGENT" "${flags[@]}" ;;
        dpo) prefer "$policy" few.pairs multi_turn_dpo "${flags[@]}" ;;
        pmi-*) from_turn_pairs pmi --critic_type pmi --critic_settings '{"normalize": "none"}' --model_id "$AGENT" ;;
        sweet-*)
            prefer critic few.pairs_with_c critic
            from_turn_pairs sweet --config $CONFIGS/ranking.yaml --model_id "$RUN/critic"
            ;;
        rft_more)
            [ "${#flags[@]}" -gt 0 ] || flags=(--max_steps none --max_epochs 8)
            play many "$train" 32 "$AGENT"
            imitate "$policy" many.graded "$AGENT" "${flags[@]}"
            ;;
        dpo_more)
            play many "$train" 32 "$AGENT"
            prefer dpo_more many.pairs multi_turn_dpo --max_steps none --max_epochs 2 --max_pairs_per_prompt 32
            ;;
        own-*) imitate_own pmi-gap ;;
        then-*) imitate_own pmi-halves ;;
        again-*) imitate_own rft ;;
        *) echo "run.sh: unknown policy $policy" >&2 && exit 2 ;;
    esac
    evaluate "$policy.$PART" "$model" "$tests"
done
