#!/usr/bin/env bash
# Sets up and runs lint and tests on a fresh machine (CPU is enough):
#   bash scripts/run_tests.sh [arguments of pytest, such as -m "not slow"]
# The virtual environment is .venv, or the folder that SWEET_RL_VENV names. A browser for the tests of pages is
# installed by apt-get where it is missing and this user may (root, or sudo without a password).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source-path=SCRIPTDIR source=environment.sh
source scripts/environment.sh

install "[test]"
install_browser
ruff check .
lint-imports
# Two test files at a time, one thread each. tests/integration comes first: its long files must not be the last to start.
# -rs names each skipped test with what it needs.
OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" python -m pytest -q -rs -n 2 --dist loadfile --no-loadscope-reorder "$@"
