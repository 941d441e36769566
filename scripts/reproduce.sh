#!/usr/bin/env bash
# The tables and figures of the paper: makes the environment, then calls doit on configs/dodo.py with the same words.
#
#   bash scripts/reproduce.sh table2                          the tiny agent on CPU, 5 seeds
#   WORLD=hard SEEDS=2 bash scripts/reproduce.sh table2       the hard world, 2 seeds
#   bash scripts/reproduce.sh list                            all tables and figures (docs/reproduce.md)
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '/^set/q; /shellcheck/d; 2,$s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
case " $* " in *" --mini "* | *" --paper "* | *" --world "* | *" --seeds "* | *" --output "*)
    echo "reproduce.sh: its options are variables now: WORLD=hard SEEDS=2 OUT=FOLDER bash scripts/reproduce.sh table2" \
        "(WORLD=paper in place of --paper; docs/reproduce.md)" >&2
    exit 2
    ;;
esac
if [ "${WORLD:-}" != paper ]; then # with the paper's models: the environment that is active
    # shellcheck source-path=SCRIPTDIR source=environment.sh
    source scripts/environment.sh
    install "[workflow]" sweet_rl transformers doit matplotlib
fi
exec doit "$@"
