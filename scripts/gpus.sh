# shellcheck shell=bash disable=SC2034,SC2153
# Sourced by a recipe for GPUs, after steps.sh: the simulated human's server, and the GPUs that each step gets.
#
#   HUMAN_SERVER=node1:8000   a server on another machine (host:port or URL), which runs all the time
#   HUMAN_GPUS=0,1,2,3        GPUs of this machine: human_on starts a server on them, human_off ends it
#   HUMAN_SHARE=0.5           the agent plays on the same GPUs; the server takes this share of their memory
#   HUMAN_FLAGS=...           more flags of `vllm serve`
#   LAUNCH=...                launcher of the trainings, which then run one after the other
#   RECIPE=run_backend.sh     the recipe's name in messages, set by the recipe
#
# It sets BESIDE_HUMAN, the words before a command that runs while the human's server does, and the launchers of the
# trainings: LAUNCH on all GPUs; FIRST and SECOND for two trainings at the same time, on four GPUs each if there are eight.

refuse() {
    echo "$RECIPE: $*" >&2
    exit 2
}
[ "${PREFLIGHT:-}" != only ] || refuse "PREFLIGHT=only is gone, and this command would start the whole run." \
    "NUM_TASKS=4 OUT=runs/trial takes every step on four tasks."
# The GPUs of this machine, one per line; none if they are not known.
if [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    gpus=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep . || true)
else
    gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | grep -x '[0-9]*' || true)
fi

human_process="" HUMAN_COMMAND="${HUMAN_COMMAND:-}" BESIDE_HUMAN=""
if [ -n "${HUMAN_SERVER:-}" ]; then
    [ -z "${HUMAN_GPUS:-}" ] || refuse "HUMAN_SERVER and HUMAN_GPUS are both set: a server elsewhere, or one here?"
    HUMAN_COMMAND=""
elif [ -n "${HUMAN_GPUS:-}" ]; then
    its=$(tr ',' '\n' <<<"$HUMAN_GPUS" | grep .)
    others=$(grep -vxF "$its" <<<"$gpus" | paste -sd, - || true)
    unknown=$(grep -vxF "${gpus:-none}" <<<"$its" | paste -sd, - || true)
    [ -z "$unknown" ] || refuse "HUMAN_GPUS=$HUMAN_GPUS: $unknown is not among the GPUs of this machine" \
        "($(paste -sd, - <<<"${gpus:-nvidia-smi names none}")). Without GPUs: --smoke."
    HUMAN_COMMAND="env CUDA_VISIBLE_DEVICES=$HUMAN_GPUS vllm serve $HUMAN --host 127.0.0.1 --generation-config vllm"
    HUMAN_COMMAND+=" --tensor-parallel-size $(wc -l <<<"$its") ${HUMAN_FLAGS:-}"
    if [ -n "${HUMAN_SHARE:-}" ]; then
        HUMAN_COMMAND+=" --gpu-memory-utilization $HUMAN_SHARE"
    elif [ -n "$others" ]; then
        BESIDE_HUMAN="env CUDA_VISIBLE_DEVICES=$others"
    else
        refuse "HUMAN_GPUS=$HUMAN_GPUS leaves no GPU to the agent: name fewer GPUs, or let the two share them" \
            "(HUMAN_SHARE=0.5), or name a server elsewhere (HUMAN_SERVER=host:port)."
    fi
elif [ -z "$HUMAN_COMMAND" ]; then
    refuse "where is the simulated human, $HUMAN? HUMAN_GPUS=0,1,2,3 starts its server on these GPUs of this machine" \
        "while there are dialogues; HUMAN_SERVER=host:port names one that runs elsewhere."
fi
HUMAN_SERVER="${HUMAN_SERVER:-127.0.0.1}" # human_on adds the port

human_on() { # human_on OUTPUT...: starts the server and waits for it, unless all of these dialogues are complete and stay
    local output port log="$OUT/logs/human.log" missing=""
    case "${PLAY_FLAGS:-}" in *--retry[_-]failed* | *--overwrite*) missing=1 ;; esac
    for output in "$@"; do
        grep -qs '"status": "finished"' "$output.manifest.json" || missing=1
    done
    if [ -z "$HUMAN_COMMAND" ] || [ -z "$missing" ]; then return; fi
    port=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    HUMAN_SERVER="127.0.0.1:$port"
    echo "\$ $HUMAN_COMMAND --port $port" >>"$log"
    printf '%5d s  %s is being loaded (%s)\n' $SECONDS "$HUMAN" "${log#"$PWD"/}"
    set -m # in a process group of its own: Ctrl-C does not reach it, and human_off ends all of its processes
    # shellcheck disable=SC2086 # several words
    $HUMAN_COMMAND --port "$port" </dev/null >>"$log" 2>&1 &
    human_process=$!
    set +m
    until python -c 'import http.client, sys
server = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=5)
server.request("GET", "/v1/models")
sys.exit(server.getresponse().status != 200)' "$port" 2>/dev/null; do
        if ! kill -0 $human_process 2>/dev/null; then
            echo "the server of $HUMAN has ended. The end of ${log#"$PWD"/}:" >&2
            tail -n 20 "$log" >&2
            exit 1
        fi
        sleep 0.2
    done
    printf '%5d s  %s answers at %s\n' $SECONDS "$HUMAN" "$HUMAN_SERVER"
}
human_off() { # ends the server, if human_on has started one
    [ -n "$human_process" ] || return 0
    kill "$human_process" 2>/dev/null || true
    for _ in $(seq 600); do
        kill -0 "$human_process" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 -- "-$human_process" 2>/dev/null || true # what is left of its process group
    wait "$human_process" 2>/dev/null || true
    human_process=""
}

FIRST="${LAUNCH:-}" SECOND="${LAUNCH:-}" IN_TURN="${IN_TURN-1}"
if [ -z "${LAUNCH:-}" ]; then
    LAUNCH="torchrun --standalone --nproc_per_node gpu" FIRST="$LAUNCH" SECOND="$LAUNCH"
    if [ "$(wc -l <<<"$gpus")" -ge 8 ]; then
        IN_TURN="" four="torchrun --standalone --nproc_per_node 4"
        FIRST="env CUDA_VISIBLE_DEVICES=$(sed -n 1,4p <<<"$gpus" | paste -sd, -) $four"
        SECOND="env CUDA_VISIBLE_DEVICES=$(sed -n 5,8p <<<"$gpus" | paste -sd, -) $four"
    fi
fi
ready() { # ready MODEL...: says which packages do not fit each other; downloads the models that are no folders here
    local model
    python -m pip check || true # only a warning: a package that no step uses may be among them
    for model in "$@" ${HUMAN_GPUS:+"$HUMAN"}; do
        [ -d "$model" ] || hf download "$model" --exclude "original/*"
    done
}
in_turn() { # in_turn LANE: waits for it, unless the trainings of the next lane have GPUs of their own
    [ -z "$IN_TURN" ] || wait "$1"
}
rank_on_gpus() { # rank_on_gpus OUTPUT FLAGS...: rank_best_of_n.py, on each of several GPUs a part of the candidates
    local output="$1" count gpu number=0 part parts="" process processes="" status=0
    shift
    count=$(grep -c . <<<"$gpus" || true)
    if [ "$count" -le 1 ]; then
        python scripts/rank_best_of_n.py --output_path "$output" "$@"
        return
    fi
    trap 'kill $processes 2>/dev/null; exit 143' TERM
    for gpu in $gpus; do
        number=$((number + 1))
        part="${output%.jsonl}.$number.jsonl"
        parts+="${parts:+,}$part"
        CUDA_VISIBLE_DEVICES=$gpu python scripts/rank_best_of_n.py --output_path "$part" --shard $number/"$count" "$@" &
        processes+=" $!"
    done
    for process in $processes; do wait "$process" || status=$?; done # `wait` alone would hide a failure
    [ $status = 0 ] || return $status
    python scripts/gather_shards.py --shards "$parts" --output_path "$output"
}
