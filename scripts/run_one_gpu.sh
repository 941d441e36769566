#!/usr/bin/env bash
# Backend Programming on one GPU of 24 GB: run_backend.sh with a small agent and adapters (LoRA, configs/one_gpu), in an
# environment with pip install -c constraints-gpu.txt -e '.[vllm,lora]'. Stopped at any point, the same command continues.
#
#   NUM_TASKS=16 OUT=runs/trial bash scripts/run_one_gpu.sh     the real models on 16 tasks
#   bash scripts/run_one_gpu.sh                         everything; the human has half of the GPU, only during dialogues
#   HUMAN=gpt-4o-mini HUMAN_SERVER=https://api.openai.com/v1 bash scripts/run_one_gpu.sh    a human behind an API, whose
#       key is in OPENAI_API_KEY; of another API: HUMAN_KEY=NAME_OF_THE_VARIABLE
#
# AGENT=meta-llama/Llama-3.2-3B-Instruct: a larger agent. Other variables: run_backend.sh and gpus.sh.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "$0")/steps.sh"

export RECIPE=run_one_gpu.sh AGENT="${AGENT:-Qwen/Qwen2.5-1.5B-Instruct}" CONFIGS="${CONFIGS:-configs/one_gpu}" LAUNCH="${LAUNCH:-python}"
export PROTOCOL="${PROTOCOL:-sweet_rl}" # because no figure of other models compares with the paper
export OUT="${OUT:-runs/one_gpu}" PLAY_FLAGS="${PLAY_FLAGS:-} ${HUMAN_KEY:+--api_key_variable $HUMAN_KEY}"
if [ -z "${HUMAN_SERVER:-}" ]; then
    export HUMAN="${HUMAN:-Qwen/Qwen2.5-7B-Instruct-AWQ}" HUMAN_FLAGS="${HUMAN_FLAGS:---max-model-len 8192}"
    export HUMAN_GPUS="${HUMAN_GPUS:-${CUDA_VISIBLE_DEVICES:-0}}" HUMAN_SHARE="${HUMAN_SHARE:-0.5}"
else
    : "${HUMAN:?is not set: the name of the model at HUMAN_SERVER}"
fi
exec bash "$(dirname "$0")/run_backend.sh"
