#!/usr/bin/env bash
# Every table and figure of the paper: bash scripts/reproduce.sh --help (workflow/dodo.py, docs/reproduce.md). With --mini
# in a virtual environment that is made if need be; with --paper in the active one.
set -euo pipefail
if [[ " $* " != *" --paper "* ]]; then
    # shellcheck source-path=SCRIPTDIR source=environment.sh
    source "$(dirname "$0")/environment.sh"
    install "[workflow]" sweet_rl doit matplotlib
    [[ " $* " != *" pages "* ]] || install "[frontend,workflow]" selenium efficientnet_lite_pytorch
fi
python -c "import doit" 2>/dev/null || { echo "reproduce.sh: doit is missing: pip install -e '.[workflow]'" >&2 && exit 2; }
exec python "$(dirname "$0")/../workflow/dodo.py" "$@"
