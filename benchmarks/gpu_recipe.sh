#!/usr/bin/env bash
# Every command of run_one_gpu.sh on this machine's GPU with a random agent of 1B: without a download and without vLLM (agent and
# candidates by transformers). The agent has the shape of Llama 3.2 1B; it talks in random words, so that the figures are times and
# not success. The dialogues to learn from are those of the packaged tiny agent; the human is its scripted one, behind the OpenAI API.
#
#   bash benchmarks/gpu_recipe.sh                   times of all steps, in runs/gpu_recipe/recipe.log
#   SHAPE=25m NUM_TASKS=4 bash benchmarks/gpu_recipe.sh
set -euo pipefail
cd "$(dirname "$0")/.."
SHAPE="${SHAPE:-1b}" NUM_TASKS="${NUM_TASKS:-16}" TOKENS="${TOKENS:-48}"
OUT="$(realpath -m "${OUT:-runs/gpu_recipe}")" PORT="${PORT:-8017}"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
mkdir -p "$OUT/configs"
tasks="$OUT/tasks"

[ -f "$OUT/agent/model.safetensors" ] || python -c "import sys, torch
sys.path.insert(0, 'benchmarks')
from random_model import save_random_agent
save_random_agent('$OUT/agent', '$SHAPE', torch.bfloat16, 'cuda' if torch.cuda.is_available() else 'cpu')"
python scripts/make_mini_tasks.py --num_train "$NUM_TASKS" --num_test "$NUM_TASKS" --output_dir "$tasks"
python scripts/simulate_interactions.py --config configs/mini/collection.yaml --agent_model mini --input_path "$tasks/train.jsonl" \
    --output_path "$OUT/dialogues.jsonl"
sed "s/^max_tokens:.*/max_tokens: $TOKENS/" configs/one_gpu/sampling.yaml >"$OUT/configs/sampling.yaml"
for file in configs/one_gpu/*.yaml; do [ -f "$OUT/configs/${file##*/}" ] || cp "$file" "$OUT/configs"; done

python benchmarks/serve_mini_human.py --tasks "$tasks/train.jsonl,$tasks/test.jsonl" --port "$PORT" >"$OUT/human.log" 2>&1 &
human=$!
trap 'kill $human' EXIT
export AGENT="$OUT/agent" HUMAN=mini-human HUMAN_SERVER="127.0.0.1:$PORT" CONFIGS="$OUT/configs" DIALOGUES="$OUT/dialogues.jsonl"
export TRAIN_TASKS="$tasks/train.jsonl" TEST_TASKS="$tasks/test.jsonl" PLAY_FLAGS="--agent_prompt_path mini_agent.txt --max_tokens $TOKENS"
log="$OUT/recipe.log" OUT="$OUT/one_gpu"
export OUT
bash scripts/run_one_gpu.sh 2>&1 | tee "$log"
