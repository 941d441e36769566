#!/usr/bin/env bash
# Sets up and runs lint and tests on a fresh machine (CPU is enough): scripts/run_tests.sh [arguments of pytest].
# Tests of pages need a browser: apt-get installs it if it is missing and this user may (root, sudo without password).
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
