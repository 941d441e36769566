# shellcheck shell=bash disable=SC2034,SC2153
# Sourced by a recipe for GPUs, after steps.sh, with RECIPE, its own name: protocol, human's server, GPUs of the steps.
#
#   HUMAN_SERVER=node1:8000   a server on another machine (host:port or URL), which runs all the time
#   HUMAN_GPUS=0,1,2,3        GPUs of this machine: human_on starts a server on them, human_off ends it
#   HUMAN_SHARE=0.5           the agent plays on the same GPUs; the server takes this share of their memory
#   HUMAN_FLAGS=...           more flags of `vllm serve`
#   LAUNCH=...                launcher of the trainings; by default on all GPUs
#   PROTOCOL=sweet_rl         prompts and rules of this package, in place of the published ones (released)
#   PROTOCOL_FILES=FOLDER     where the published prompts are; by default they are downloaded once
#
# It sets PLAY and GRADE, the flags of dialogues and gradings, and BESIDE_HUMAN, the words before a command that runs
# while the human's server does.

refuse() {
    echo "$RECIPE: $*" >&2
    exit 2
}
[ "${PREFLIGHT:-}" != only ] || refuse "PREFLIGHT=only is gone, and this command would start the whole run." \
    "NUM_TASKS=4 OUT=runs/trial takes every step on four tasks."
PLAY="--protocol ${PROTOCOL:=released} ${PROTOCOL_FILES:+--protocol_files $PROTOCOL_FILES} ${PLAY_FLAGS:-}" GRADE=""
if [ "$PROTOCOL" = released ]; then GRADE="--paper_grader"; fi
LAUNCH="${LAUNCH:-torchrun --standalone --nproc_per_node gpu}"
gpus="${CUDA_VISIBLE_DEVICES-$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | paste -sd, - || true)}"
gpus=$(tr ',' '\n' <<<"$gpus" | grep . || true) # one per line

human_process="" BESIDE_HUMAN=""
if [ -n "${HUMAN_GPUS:-}" ]; then
    [ -z "${HUMAN_SERVER:-}" ] || refuse "HUMAN_SERVER and HUMAN_GPUS are both set: a server elsewhere, or one here?"
    its=$(tr ',' '\n' <<<"$HUMAN_GPUS" | grep .)
    others=$(grep -vxF "$its" <<<"$gpus" | paste -sd, - || true)
    unknown=$(grep -vxF "${gpus:-none}" <<<"$its" | paste -sd, - || true)
    [ -z "$unknown" ] || refuse "HUMAN_GPUS=$HUMAN_GPUS: $unknown is not among the GPUs of this machine" \
        "($(paste -sd, - <<<"${gpus:-nvidia-smi names none}"))."
    if [ -n "${HUMAN_SHARE:-}" ]; then
        HUMAN_FLAGS="${HUMAN_FLAGS:-} --gpu-memory-utilization $HUMAN_SHARE"
    elif [ -n "$others" ]; then
        BESIDE_HUMAN="env CUDA_VISIBLE_DEVICES=$others"
    else
        refuse "HUMAN_GPUS=$HUMAN_GPUS leaves no GPU to the agent: name fewer GPUs, or let the two share them" \
            "(HUMAN_SHARE=0.5), or name a server elsewhere (HUMAN_SERVER=host:port)."
    fi
elif [ -z "${HUMAN_SERVER:-}" ]; then
    refuse "where is the simulated human, $HUMAN? HUMAN_GPUS=0,1,2,3 starts its server on these GPUs of this machine" \
        "while there are dialogues; HUMAN_SERVER=host:port names one that runs elsewhere."
fi
HUMAN_SERVER="${HUMAN_SERVER:-127.0.0.1}" # human_on adds the port

human_on() { # human_on OUTPUT...: starts the server and waits for it, unless all of these dialogues are complete
    local log="$OUT/logs/human.log" output missing="" port
    mkdir -p "$OUT/logs"
    for output in "$@"; do
        grep -qs '"status": "finished"' "$output.manifest.json" || missing=1
    done
    case "$PLAY" in *--retry_failed* | *--overwrite*) missing=1 ;; esac
    if [ -z "${HUMAN_GPUS:-}" ] || [ -z "$missing" ]; then return; fi
    port=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    HUMAN_SERVER="127.0.0.1:$port"
    echo "$HUMAN is being loaded (${log#"$PWD"/})"
    # shellcheck disable=SC2086 # several words
    CUDA_VISIBLE_DEVICES=$HUMAN_GPUS setsid vllm serve "$HUMAN" --host 127.0.0.1 --generation-config vllm \
        --tensor-parallel-size "$(wc -l <<<"$its")" ${HUMAN_FLAGS:-} --port "$port" </dev/null >>"$log" 2>&1 &
    human_process=$!
    trap 'human_off; kill $(jobs -p) 2>/dev/null && wait || true' EXIT
    until curl --silent --fail --output /dev/null "http://$HUMAN_SERVER/v1/models"; do
        if ! kill -0 $human_process 2>/dev/null; then
            echo "the server of $HUMAN has ended. The end of ${log#"$PWD"/}:" >&2
            tail -n 20 "$log" >&2
            exit 1
        fi
        sleep 1
    done
}
human_off() { # ends the server with all of its processes, if human_on has started one
    [ -n "$human_process" ] || return 0
    kill -- "-$human_process" 2>/dev/null || true
    wait "$human_process" 2>/dev/null || true
    human_process=""
}
ready() { # ready MODEL...: says which packages do not fit each other; downloads the models that are no folders here
    local model
    python -m pip check || true # only a warning: a package that no step uses may be among them
    for model in "$@" ${HUMAN_GPUS:+"$HUMAN"}; do
        [ -d "$model" ] || hf download "$model" --exclude "original/*"
    done
}
rank_on_gpus() { # rank_on_gpus OUTPUT FLAGS...: rank_best_of_n.py, on each of several GPUs a part of the candidates
    local output="$1" count gpu number=0 part process processes="" status=0
    local parts=()
    shift
    count=$(grep -c . <<<"$gpus" || true)
    if [ "$count" -le 1 ]; then
        python scripts/rank_best_of_n.py --output_path "$output" "$@"
        return
    fi
    trap 'kill $processes 2>/dev/null && wait; exit 143' TERM
    for gpu in $gpus; do
        number=$((number + 1))
        part="${output%.jsonl}.$number.jsonl"
        parts+=("$part")
        CUDA_VISIBLE_DEVICES=$gpu python scripts/rank_best_of_n.py --output_path "$part" --shard $number/"$count" "$@" &
        processes+=" $!"
    done
    for process in $processes; do wait "$process" || status=$?; done # `wait` alone would hide a failure
    [ $status = 0 ] || return $status
    cat "${parts[@]}" >"$output.partial" && mv "$output.partial" "$output"
}
