# shellcheck shell=bash
# Sourced by a recipe before anything else: its options, and what runs its steps. Needs no newer bash than macOS has.
#
#   step NAME COMMAND...                    what the command prints goes to $OUT/logs/NAME.log; then one line with its time
#   { step ...; step ...; } & lane=$!       a lane: steps one after the other, beside those of another lane
#   { step ...; } & both $lane $!           the recipe goes on when both lanes have ended
#
# If a step fails, the end of its log is shown, and the recipe ends when the other lane has.

case "${1:-}" in
    "") ;;
    -h | --help) sed -n '/^set/q; /shellcheck/d; 2,$s/^# \{0,1\}//p' "$0" && exit ;;
    *) echo "${0##*/}: unknown option $*; settings are variables (--help), NUM_TASKS=4 makes a trial" >&2 && exit 2 ;;
esac
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
trap 'kill $(jobs -p) 2>/dev/null && wait || true' EXIT
step() {
    local name="$1" log="$OUT/logs/$1.log" start=$SECONDS
    shift
    mkdir -p "$OUT/logs"
    echo "\$ $*" >>"$log"
    "$@" </dev/null >>"$log" 2>&1 &
    # shellcheck disable=SC2064 # the number of this process
    trap "kill $! 2>/dev/null && wait $!; exit 143" TERM # a lane that is ended ends its command
    if ! wait $!; then
        echo "$name failed. The end of ${log#"$PWD"/}:" >&2
        grep '^error: ' "$log" | tail -n 1 >&2 || true # a launcher writes many lines after the error of a script
        tail -n 20 "$log" >&2
        exit 1
    fi
    printf '%5d s  %s\n' $((SECONDS - start)) "$name"
}
both() { wait "$1" && wait "$2"; }
path() { # a path seen from the folder of the call; a name on the hub as it is
    if [[ "$1" == colbench/* && ! -e "$1" ]]; then echo "$1"; else realpath -m "$1"; fi
}
