#!/usr/bin/env bash
# The tables and figures of the paper: makes the environment, then calls doit on lab/reproduce/dodo.py with the same words.
#
#   bash lab/reproduce/reproduce.sh table2                          the tiny agent on CPU, 5 seeds
#   WORLD=hard SEEDS=2 bash lab/reproduce/reproduce.sh table2       the hard world, 2 seeds
#   bash lab/reproduce/reproduce.sh list                            all tables and figures (docs/results.md)
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '/^set/q; /shellcheck/d; 2,$s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/../.."
if [ "${WORLD:-}" != paper ]; then # with the paper's models: the environment that is active
    # shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
    source scripts/environment.sh
    install "[workflow]" sweet_rl transformers doit matplotlib
fi
exec doit "$@"
