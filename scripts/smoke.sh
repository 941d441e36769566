# shellcheck shell=bash disable=SC2034
# Sourced by a recipe for GPUs after --smoke: the packaged tiny agent and the scripted human behind the OpenAI API, on a
# handful of mini tasks, on the CPU. All commands and files of settings stay; two trainings run at the same time. The
# prompts are those of the mini agent: the packaged human does not know the published ones, which a network brings.

unset HUMAN_GPUS HUMAN_SERVER DIALOGUES NUM_TASKS
export CUDA_VISIBLE_DEVICES="" TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
AGENT=mini HUMAN=mini-human PREFLIGHT=no PROTOCOL=sweet_rl PROTOCOL_FILES=""
LAUNCH="${LAUNCH:-torchrun --standalone --nproc_per_node 2}" IN_TURN=""
TRAIN+=" --max_epochs 1 --max_samples 8" PLAY_FLAGS="${PLAY_FLAGS:-} --agent_prompt_path mini_agent.txt --max_tokens 100"
SAMPLE="--data_fraction 0.1 --best_of_n 2 --max_tokens 100" DIALOGUES="" LIMIT=""
TRAIN_TASKS="$OUT/tasks/train.jsonl" TEST_TASKS="$OUT/tasks/test.jsonl"
HUMAN_COMMAND="python scripts/serve_mini_human.py --tasks $TRAIN_TASKS,$TEST_TASKS"
step tasks python scripts/make_mini_tasks.py --num_train 8 --num_test 2 --output_dir "$OUT/tasks"
