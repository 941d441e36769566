# shellcheck shell=bash
# Sourced by a recipe, which has set OUT: runs its steps, two lanes of them at a time. Needs no newer bash than macOS has.
#
#   step NAME COMMAND...                    what the command prints goes to $OUT/logs/NAME.log; then one line with its time
#                                           and number (docs/tutorial.md); on a terminal, while it runs, its progress
#                                           every 10 s
#   { step ...; step ...; } & lane=$!       a lane: steps one after the other
#   { step ...; } & both $lane $!           the recipe goes on when both lanes have ended
#
# If a step fails, the end of its log is shown, the other lane is stopped and the recipe exits with 1. Ctrl-C stops both,
# and the server of gpus.sh.

mkdir -p "$OUT/logs"
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP # of a terminal that is closed, unless started by nohup
trap 'exit 1' USR1 # from a lane whose step failed
trap stop EXIT

number_of() { # number_of NAME: the number in docs/tutorial.md of the step with this log; none for a baseline or a page
    case "$1" in
        *.test | *.graded) echo 8 ;;
        tasks) echo 0 ;;
        trajectories*) echo 1 ;;
        rewarded*) echo 2 ;;
        critic*) echo 3 ;;
        candidates*) echo 4 ;;
        ranked*) echo 5 ;;
        turn_pairs*) echo 6 ;;
        sweet*) echo 7 ;;
    esac
}
progress() { # progress NAME LOG: the newest line of the log with a share in percent, every 10 seconds
    local start=$SECONDS line
    while sleep 10; do
        line=$(tail -c 4000 "$2" | grep -a '% ' | tail -n 1 | sed 's/,.*/]/' | cut -c 1-60 || true)
        printf '         %1s %s, %d s%s\n' "$(number_of "$1")" "$1" $((SECONDS - start)) "${line:+: $line}"
    done
}
step() {
    local name="$1" log="$OUT/logs/$1.log" start=$SECONDS old status=0 note="" process shown=""
    shift
    kill -0 $$ 2>/dev/null || exit 1 # the recipe has been killed: its lanes begin no other step
    trap 'exit 143' TERM             # a lane does not inherit these two
    trap stop EXIT
    echo "\$ $*" >>"$log"
    old=$(wc -c <"$log")
    "$@" </dev/null >>"$log" 2>&1 &
    process=$!
    if [ -t 1 ]; then progress "$name" "$log" & shown=$!; fi
    wait $process || status=$?
    if [ -n "$shown" ]; then kill $shown 2>/dev/null && wait $shown 2>/dev/null || true; fi
    if [ $status != 0 ]; then
        [ $status -le 128 ] || note=": ended by signal $((status - 128))" # 9 may be a lack of memory
        {
            echo "$name failed$note. The end of ${log#"$PWD"/}:"
            # A launcher writes many lines after the error of a script.
            tail -c "+$((old + 1))" "$log" | tail -n 20 | grep -q '^error: ' ||
                tail -c "+$((old + 1))" "$log" | grep '^error: ' | sort -u || true
            tail -c "+$((old + 1))" "$log" | tail -n 20
        } >&2
        kill -USR1 $$
        exit 1
    fi
    case "$(tail -c "+$((old + 1))" "$log")" in *"already complete"*) note=": already complete" ;; esac
    printf '%5d s  %1s %s\n' $((SECONDS - start)) "$(number_of "$name")" "$name$note"
}
both() {
    wait "$1"
    wait "$2"
}
stop() { # ends what this shell has started: the lanes, or the command of a step; and the human's server
    local process server=""
    trap '' INT TERM HUP USR1
    for process in $(jobs -p); do
        if [ "$process" = "${human_process:-}" ]; then server=1; else kill "$process" 2>/dev/null || true; fi
    done
    [ -z "$server" ] || human_off
    wait
}
