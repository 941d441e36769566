#!/usr/bin/env bash
# Sets up and runs, on a fresh machine (CPU is enough), lint and the library's tests; or its slow tests (two processes,
# kills of long runs, recipes, attacks); or those of the laboratory and of the benchmarks:
#   bash scripts/run_tests.sh [arguments of pytest]
#   bash scripts/run_tests.sh slow [arguments of pytest]
#   bash scripts/run_tests.sh lab [arguments of pytest]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source-path=SCRIPTDIR source=environment.sh
source scripts/environment.sh
install "[test]" pytest mypy sybil
install_browser
case "${1:-}" in
    slow) shift && set -- -m slow "$@" ;;
    lab) shift && set -- -o testpaths="lab benchmarks" "$@" ;;
    *)
        ruff check .
        ruff format --check .
        lint-imports
        mypy --num-workers 2
        set -- -m "not slow" "$@"
        ;;
esac
# Two test files at a time, one thread each. tests/integration comes first: its long files must not be the last to start.
# -rs names each skipped test with what it needs.
OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" python -m pytest -q -rs -n 2 --dist loadfile --no-loadscope-reorder "$@"
