#!/usr/bin/env bash
# Every table and figure of the paper: bash scripts/reproduce.sh --help (workflow/dodo.py). With --mini in a virtual
# environment that is made if it is missing; with --paper in the active one (pip install -e '.[vllm,deepspeed,workflow]').
set -euo pipefail
if [[ " $* " != *" --paper "* ]]; then
    # shellcheck source-path=SCRIPTDIR source=environment.sh
    source "$(dirname "$0")/environment.sh"
    install "[workflow]" sweet_rl doit matplotlib
fi
exec python "$(dirname "$0")/../workflow/dodo.py" "$@"
