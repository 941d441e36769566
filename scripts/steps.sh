# The steps of the pipeline as functions, sourced by run_mini.sh, run_backend.sh and reproduce.sh, so that all of them
# run the same commands. The caller sets
#
#   configs      folder of the settings: configs/mini, configs/mini/html, configs/paper/backend or .../frontend
#   agent        the model that is trained; it also plays, and samples the candidates
#   dir, seed    folder of this seed's files; seed of everything random
#   train_tasks, test_tasks, trajectories   files; dialogues are collected where trajectories is empty
#   launcher     array: what starts a training            training    array: more flags of every training
#   scoring      array: more flags of every ranking       gpus        GPUs that training, ranking and sampling take (0: CPU)
#   collecting, playing, sampling, grading   arrays: more flags of collection, all dialogues, candidates, grades
#   pairing, texts   arrays: more flags of turn pairs; how the texts of a released file are read
#   dry_run      if not empty, every command is printed with its settings and none is run
#   evaluator    script that gives the rewards (default: evaluate_code)       evaluating   array: more flags of it, always
#   imitated     what rejection fine-tuning reads (default: rewarded, the file of that name)
# and the function `player MODEL`, which sets the array `player`: where the agent is played.

evaluator=evaluate_code evaluating=() pairing=() imitated=rewarded

json() { # json TEXT: as a JSON string
    local text="${1//\\/\\\\}"
    printf '"%s"' "${text//\"/\\\"}"
}

settings() { # settings FILE COMMAND: the lines of a configuration that no flag of the command overrides
    local key value
    while IFS=: read -r key value; do
        [[ "$key" == "#"* || "$2" =~ --(no)?$key( |$) ]] || echo "    $key:$value"
    done <"$1"
}

gpus_of() { # gpus_of COMMAND: GPUs of this machine that it takes; one for a step whose models are on servers
    case "$1" in
        *scripts/train_* | *scripts/rank_*) echo "$gpus" ;;
        *scripts/sample_*--hostname* | *scripts/simulate_*--agent_hostname*) echo 1 ;;
        *scripts/sample_* | *scripts/simulate_*) echo "$gpus" ;;
        *) echo 1 ;;
    esac
}

# step NAME COMMAND...: says what is done, does it unless --dry_run, and appends to $dir/times.jsonl what it took
step() {
    local name="$1" status=0 config="" output="" word spent devices=0 LC_ALL=C TIMEFORMAT='%R %U %S'
    shift
    echo "== $name"
    if [ -n "${dry_run:-}" ]; then
        echo "\$ $(printf '%q ' "$@")"
    fi
    for word in "$@"; do
        [ "$config" != next ] || [ -z "${dry_run:-}" ] || settings "$word" "$*"
        [ "$output" != next ] || output="$word"
        [ "$word" = --config ] && config=next || config=""
        case "$word" in --output_path | --save_path | --output_dir) [ -n "$output" ] || output=next ;; esac
    done
    [ -z "${dry_run:-}" ] || return 0
    [ "${gpus:-0}" = 0 ] || devices=$(gpus_of "$*")
    # shellcheck disable=SC2261  # the command's own output goes around the clock's
    { spent=$({ time "$@" >&3 2>&4; } 2>&1) || status=$?; } 3>&1 4>&2
    spent="${spent##*$'\n'}"
    read -r seconds user system <<<"$spent"
    printf '{"step": %s, "output": %s, "seconds": %s, "user_seconds": %s, "system_seconds": %s, "gpus": %s, "status": %s, "command": %s}\n' \
        "$(json "$name")" "$(json "$output")" "$seconds" "$user" "$system" "$devices" "$status" \
        "$(json "$(printf '%q ' "$@")")" >>"$dir/times.jsonl"
    [ $status = 0 ] || return $status
    echo "-- $name: ${seconds%.*} s"
}

beside_pid=""
trap '[ -z "$beside_pid" ] || kill -- "-$beside_pid" 2>/dev/null' EXIT

beside() { # beside LOG COMMAND...: starts a command in the background, as a process group that ends with this script
    local log="$1"
    shift
    if [ -n "${dry_run:-}" ] || [ "${gpus:-0}" != 0 ]; then
        "$@" # one after the other: GPUs are not shared
        return
    fi
    set -m
    "$@" >"$log" 2>&1 &
    beside_pid=$!
    set +m
}

joined() { # joined LOG: waits for what was started beside, and shows what it printed
    local status=0
    [ -n "$beside_pid" ] || return 0
    wait "$beside_pid" || status=$?
    beside_pid=""
    cat "$1"
    [ $status = 0 ] || exit $status
}

awaited() { # awaited OUTPUT LOG: until what runs beside, with its log, has finished that output
    [ -n "$beside_pid" ] || return 0
    until grep -q '"status": "finished"' "$1.manifest.json" 2>/dev/null; do
        kill -0 "$beside_pid" 2>/dev/null || { joined "$2" && return; }
        sleep 1
    done
}

play() { # play CONFIG MODEL TASKS OUTPUT SEED [OPTIONS...]
    player "$2"
    step "$step_name" python scripts/simulate_interactions.py --config "$configs/$1.yaml" "${player[@]}" "${playing[@]}" \
        --input_path "$3" --output_path "$4" --seed "$5" "${@:6}"
}

evaluate() { # evaluate NAME MODEL [OPTIONS...]: dialogues on the test tasks, and their grades
    step_name="evaluate $1: dialogues" play evaluation "$2" "$test_tasks" "$dir/$1.test.jsonl" "$seed" "${@:3}"
    step "evaluate $1: grades" python "scripts/$evaluator.py" --input_path "$dir/$1.test.jsonl" \
        --output_path "$dir/$1.graded.jsonl" "${evaluating[@]}"
}

collect() { # dialogues on the training tasks
    [ -z "$trajectories" ] || return 0
    step_name="collect" play collection "$agent" "$train_tasks" "$dir/trajectories.jsonl" "$((seed + 1000))" \
        "${collecting[@]}"
}

grade() { # grade [OPTIONS...]: rewards and trajectory pairs
    step "grade, pair" python "scripts/$evaluator.py" --input_path "${trajectories:-$dir/trajectories.jsonl}" \
        --output_path "$dir/rewarded.jsonl" --preference_path "$dir/pairs.jsonl" \
        --ground_truth_preference_path "$dir/pairs_with_c.jsonl" "${evaluating[@]}" "${grading[@]}" "${texts[@]}" "$@"
}

train() { # train NAME SCRIPT CONFIG DATASET SAVE_PATH [OPTIONS...]
    step "train $1" "${launcher[@]}" "scripts/$2.py" --config "$configs/$3.yaml" --pretrain "$agent" --dataset "$4" \
        --save_path "$5" --seed "$seed" "${training[@]}" "${@:6}"
}

rejection_fine_tuning() {
    train "rejection fine-tuning" train_sft rejection_fine_tuning "$dir/$imitated.jsonl" "$dir/rft" "${texts[@]}"
    evaluate rft "$dir/rft"
}

multi_turn_dpo() {
    train "multi-turn DPO" train_dpo multi_turn_dpo "$dir/pairs.jsonl" "$dir/dpo"
    evaluate dpo "$dir/dpo"
}

critic() { # critic NAME DATASET [OPTIONS...]
    train "the critic ($1)" train_dpo critic "$dir/$2.jsonl" "$dir/$1" "${@:3}"
}

candidates() {
    if [ "${candidates_host:-}" ]; then player=(--hostname "$candidates_host"); else player=(--engine "${engine:-auto}"); fi
    step "sample candidates" python scripts/sample_best_of_n.py --config "$configs/sampling.yaml" --model_id "$agent" \
        "${player[@]}" --input_path "$dir/rewarded.jsonl" --output_path "$dir/candidates.jsonl" --seed "$seed" \
        "${sampling[@]}"
}

rank() { # rank NAME MODEL [OPTIONS...]: ranked_NAME.jsonl, or ranked.jsonl for the method itself
    step "rank candidates${1:+ ($1)}" python scripts/rank_best_of_n.py --config "$configs/ranking.yaml" --model_id "$2" \
        --input_path "$dir/candidates.jsonl" --output_path "$dir/ranked${1:+_$1}.jsonl" "${scoring[@]}" "${@:3}"
}

policy() { # policy [NAME]: turn pairs of ranked[_NAME].jsonl, a policy sweet[_NAME], and its evaluation
    local suffix="${1:+_$1}"
    step "turn pairs${1:+ ($1)}" python scripts/generate_random_pairs_from_ranks.py --config "$configs/turn_pairs.yaml" \
        --input_path "$dir/ranked$suffix.jsonl" --output_path "$dir/turn_pairs$suffix.jsonl" --seed "$seed" \
        "${pairing[@]}"
    train "SWEET-RL${1:+ ($1)}" train_dpo actor "$dir/turn_pairs$suffix.jsonl" "$dir/sweet$suffix"
    evaluate "sweet$suffix" "$dir/sweet$suffix"
}

once() { # once FUNCTION [ARGUMENTS...]: not again for the same folder in this call
    [[ "${done_here:-}" != *"|$dir:$*|"* ]] || return 0
    "$@"
    is_done "$@"
}

is_done() { # what runs beside cannot tell by itself
    done_here="${done_here:-}|$dir:$*|"
}

train_critic() { critic critic pairs_with_c; }

sweet() { # the whole method, from rewarded trajectories on
    once train_critic
    once candidates
    once rank "" "$dir/critic"
    once policy
}

sweet_and() { # sweet_and FUNCTION: the same, with rejection fine-tuning while the candidates are sampled beside it, and
    # then FUNCTION there: multi-turn DPO, and more
    beside "$dir/beside.log" candidates_and "$1"
    once train_critic
    rejection_fine_tuning
    awaited "$dir/candidates.jsonl" "$dir/beside.log"
    is_done candidates
    once rank "" "$dir/critic"
    once policy
    joined "$dir/beside.log"
}

candidates_and() {
    once candidates
    "$1"
}
