# shellcheck shell=bash disable=SC2034
# Sourced by a recipe for GPUs after --smoke: tiny models and a scripted human on a handful of tasks, on the CPU. All
# commands and files of settings stay; two trainings run at the same time.
#
# Backend: the packaged agent and its human, behind the OpenAI API. The prompts are those of the agent: the human does not
# know the published ones, which a network brings. Frontend: agent and designer of lab/pages, and a critic that sees.
# The only step of a training has a learning rate that moves weights in bfloat16. Otherwise the critic's scores against
# the untrained model (REFERENCE=seed) are all 0, and give no turn pairs.

unset HUMAN_GPUS HUMAN_SERVER DIALOGUES NUM_TASKS
export CUDA_VISIBLE_DEVICES="" TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
PROTOCOL=sweet_rl PROTOCOL_FILES="" DIALOGUES="" LIMIT=""
LAUNCH="${LAUNCH:-torchrun --standalone --nproc_per_node 2}" IN_TURN=""
TRAIN+=" --max_epochs 1 --max_samples 8 --learning_rate 1e-3"
TRAIN_TASKS="$OUT/tasks/train.jsonl" TEST_TASKS="$OUT/tasks/test.jsonl"
if [ "$RECIPE" = run_frontend.sh ]; then
    AGENT=lab/pages/agent CRITIC="$OUT/tiny_vision" TASK_TYPE=lab/pages/domain.py HUMAN=designer HUMAN_SERVER=unused
    BESIDE_PAPER="" # its similarities are by another encoder
    PLAY_FLAGS="${PLAY_FLAGS:-} --task_type $TASK_TYPE --max_tokens 64 --max_turns 4 --page_width 480 --page_height 360"
    SMOKE_GRADE=" --task_type $TASK_TYPE --image_encoder efficientnet-lite0 --page_width 480 --page_height 360"
    SMOKE_GRADE+=" --min_gap 0.001" SAMPLE="--best_of_n 2 --max_tokens 64"
    smoke_tasks() {
        step tasks python -m lab.pages.make_page_tasks --num_train 8 --num_test 2 --output_dir "$OUT/tasks"
        [ -d "$CRITIC" ] || step tiny_vision python -c "from tests.support.tiny_vision import save_tiny_vision_model as save
save('$CRITIC', context=8192)"
    }
else
    AGENT=mini HUMAN=mini-human
    PLAY_FLAGS="${PLAY_FLAGS:-} --agent_prompt_path mini_agent.txt --max_tokens 100"
    SAMPLE="--data_fraction 0.1 --best_of_n 2 --max_tokens 100"
    HUMAN_COMMAND="python benchmarks/serve_mini_human.py --tasks $TRAIN_TASKS,$TEST_TASKS"
    smoke_tasks() { step tasks python scripts/make_mini_tasks.py --num_train 8 --num_test 2 --output_dir "$OUT/tasks"; }
fi
