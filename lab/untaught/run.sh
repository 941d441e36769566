#!/usr/bin/env bash
# The quick mini world with an agent that was never shown a solution, one seed: lab/taught/run.sh with a share of 0.
#
#   bash lab/untaught/run.sh
#   SEED=1 bash lab/untaught/run.sh      another seed (with the same agent)
set -euo pipefail
SHARE=0 OUT="${OUT:-runs/untaught}" bash "$(dirname "$0")/../taught/run.sh"
