#!/usr/bin/env bash
# Trains an agent that learns to ask, on two CPU cores and without a download: zero-shot, rejection fine-tuning,
# multi-turn DPO and SWEET-RL on the mini tasks, all evaluated on the same held-out tasks.
#
#   bash scripts/run_mini.sh                    # one seed; results.json, results.md and the table at the end
#   bash scripts/run_mini.sh --seeds "0 1 2"    # several seeds, one table
#   bash scripts/run_mini.sh --smoke            # every step on a handful of tasks
#   bash scripts/run_mini.sh --credit           # also: how well the critic credits turns, with and without c
#
# Other options: --output DIR (default runs/mini, or runs/mini-smoke). Stopped at any point, the same command
# continues: finished steps are passed over and a half-done one goes on where it was.
# The virtual environment is .venv, or the folder that SWEET_RL_VENV names.
set -euo pipefail

seeds="0" output="" smoke="" credit=""
while [ $# -gt 0 ]; do
    case "$1" in
        --seeds) seeds="${2:?--seeds needs a list such as \"0 1 2\"}"; shift 2 ;;
        --output) output="$(realpath -m "${2:?--output needs a folder}")"; shift 2 ;;
        --smoke) smoke=1; shift ;;
        --credit) credit=1; shift ;;
        *) echo "run_mini.sh: unknown option $1 (there are --seeds, --output, --smoke, --credit)" >&2; exit 2 ;;
    esac
done

cd "$(dirname "$0")/.."
source scripts/environment.sh
(cd / && python -c "import sweet_rl" 2>/dev/null) || pip_install -c constraints.txt -e .
# One thread each: so small a model gains nothing from a second, two steps at once do.
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

num_train=500 num_test=400 dialogues=4 fraction=0.12 candidates=16
if [ -n "$smoke" ]; then
    num_train=24 num_test=16 dialogues=4 fraction=0.2 candidates=4
fi
out="${output:-runs/mini${smoke:+-smoke}}"
mkdir -p "$out"

step() { # step NAME COMMAND...: says what is done and how long it took
    local name="$1" start=$SECONDS
    shift
    echo "== $name"
    "$@"
    echo "-- $name: $((SECONDS - start)) s"
}

play() { # play MODEL TASKS OUTPUT SEED DIALOGUES
    python scripts/simulate_interactions.py --config configs/mini/collect.yaml --agent_model "$1" \
        --input_path "$2" --output_path "$3" --seed "$4" --best_of_n "$5"
}

evaluate() { # evaluate NAME MODEL FOLDER SEED: dialogues on the held-out tasks, and their grades
    step "evaluate $1: dialogues" play "$2" "$out/tasks/test.jsonl" "$3/$1.test.jsonl" "$4" 1
    step "evaluate $1: grades" python scripts/evaluate_code.py \
        --input_path "$3/$1.test.jsonl" --output_path "$3/$1.graded.jsonl"
}

rank() { # rank FOLDER CRITIC OUTPUT [OPTIONS...]
    python scripts/rank_best_of_n.py --config configs/mini/ranking.yaml --model_id "$2" \
        --input_path "$1/candidates.jsonl" --output_path "$3" "${@:4}"
}

agent=sweet_rl/mini/agent
baselines_pid=""
trap '[ -z "$baselines_pid" ] || kill -- "-$baselines_pid" 2>/dev/null' EXIT

beside() { # beside LOG COMMAND...: starts a command in the background, as a process group that ends with this script
    local log="$1"
    shift
    set -m
    "$@" > "$log" 2>&1 &
    baselines_pid=$!
    set +m
}

joined() { # joined LOG: waits for what was started beside, and shows what it printed
    local status=0
    wait "$baselines_pid" || status=$?
    baselines_pid=""
    cat "$1"
    [ $status = 0 ] || exit $status
}

collect() { # collect FOLDER SEED
    step "collect" play "$agent" "$out/tasks/train.jsonl" "$1/trajectories.jsonl" "$(($2 + 1000))" $dialogues
    step "grade, pair" python scripts/evaluate_code.py --input_path "$1/trajectories.jsonl" \
        --output_path "$1/rewarded.jsonl" --preference_path "$1/pairs.jsonl" \
        --ground_truth_preference_path "$1/pairs_with_c.jsonl" --k $dialogues
}

baselines() { # baselines FOLDER SEED
    step "train rejection fine-tuning" python scripts/train_sft.py --config configs/mini/rejection_fine_tuning.yaml \
        --pretrain "$agent" --dataset "$1/rewarded.jsonl" --save_path "$1/rft" --seed "$2"
    evaluate rft "$1/rft" "$1" "$2"
    step "train multi-turn DPO" python scripts/train_dpo.py --config configs/mini/multi_turn_dpo.yaml \
        --pretrain "$agent" --dataset "$1/pairs.jsonl" --save_path "$1/dpo" --seed "$2"
    evaluate dpo "$1/dpo" "$1" "$2"
}

sweet() { # sweet FOLDER SEED
    step "train the critic" python scripts/train_dpo.py --config configs/mini/critic.yaml \
        --pretrain "$agent" --dataset "$1/pairs_with_c.jsonl" --save_path "$1/critic" --seed "$2"
    step "sample candidates" python scripts/sample_best_of_n.py --model_id "$agent" \
        --data_path "$1/rewarded.jsonl" --save_path "$1/candidates.jsonl" --data_fraction $fraction \
        --best_of_n $candidates --max_tokens 100 --seed "$2"
    step "rank candidates" rank "$1" "$1/critic" "$1/ranked.jsonl"
    step "turn pairs" python scripts/generate_random_pairs_from_ranks.py --input_path "$1/ranked.jsonl" \
        --output_path "$1/turn_pairs.jsonl" --num_pairs 4 --seed "$2"
    step "train SWEET-RL" python scripts/train_dpo.py --config configs/mini/actor.yaml \
        --pretrain "$agent" --dataset "$1/turn_pairs.jsonl" --save_path "$1/sweet" --seed "$2"
    evaluate sweet "$1/sweet" "$1" "$2"
}

measure_credit() { # measure_credit FOLDER SEED: ranks the same candidates in other ways, and asks the oracle
    step "train a critic without c" python scripts/train_dpo.py --config configs/mini/critic.yaml \
        --pretrain "$agent" --dataset "$1/pairs.jsonl" --save_path "$1/critic_without_c" --seed "$2"
    step "rank: critic, seed reference" rank "$1" "$1/critic" "$1/ranked_seed.jsonl" \
        --reference seed --reference_model_id "$agent"
    step "rank: untrained" rank "$1" "$agent" "$1/ranked_untrained.jsonl"
    step "rank: critic without c" rank "$1" "$1/critic_without_c" "$1/ranked_without_c.jsonl" --no_prompt
    python scripts/measure_mini_credit.py --output_path "$1/credit.json" --overwrite --runs \
"critic without c=$1/ranked_without_c.jsonl,untrained=$1/ranked_untrained.jsonl,\
critic (seed reference)=$1/ranked_seed.jsonl,critic=$1/ranked.jsonl"
}

step "tasks" python scripts/make_mini_tasks.py --num_train $num_train --num_test $num_test --output_dir "$out/tasks"

for seed in $seeds; do
    dir="$out/seed$seed"
    mkdir -p "$dir"
    beside "$dir/zero_shot.log" evaluate zero_shot "$agent" "$dir" "$seed"
    collect "$dir" "$seed"
    joined "$dir/zero_shot.log"
    echo "-- the baselines run beside SWEET-RL; their output is in $dir/baselines.log and follows"
    beside "$dir/baselines.log" baselines "$dir" "$seed"
    sweet "$dir" "$seed"
    joined "$dir/baselines.log"
    [ -z "$credit" ] || measure_credit "$dir" "$seed"
done

files() { # files NAME: the graded files of a method, one a seed, joined by +
    local joined=""
    for seed in $seeds; do joined="$joined${joined:++}$out/seed$seed/$1.graded.jsonl"; done
    echo "$joined"
}
echo "== results on $num_test held-out tasks, seeds: $seeds"
python scripts/compare_runs.py --overwrite --output_path "$out/results.json" --markdown_path "$out/results.md" \
    --baselines "zero-shot,multi-turn DPO" --runs \
"zero-shot=$(files zero_shot),rejection fine-tuning=$(files rft),multi-turn DPO=$(files dpo),SWEET-RL=$(files sweet)"
echo "written: $out/results.json, $out/results.md; $SECONDS s in all"
