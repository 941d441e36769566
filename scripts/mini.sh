# Sourced by run_mini.sh and reproduce.sh --mini: the steps with the tiny agent and the scripted human on two CPU cores.
# The caller sets `smoke` (not empty: a handful of tasks), `out`, `train_count` (training tasks; empty: as many as here)
# and, for pages, `task_type` (html); the virtual environment is made and entered.

# shellcheck disable=SC2034  # the variables are read by steps.sh
source scripts/steps.sh
# One thread each: so small a model gains nothing from a second, two steps at once do.
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

configs=configs/mini agent=sweet_rl/models/packaged/mini gpus=0 trajectories=""
launcher=(python) training=() scoring=() playing=() texts=() collecting=() sampling=() grading=(--k 4)
num_train=50 num_test=400 task_type="${task_type:-code}" extras=""
if [ "$task_type" = html ]; then
    configs=configs/mini/html agent=sweet_rl/models/packaged/mini_html extras="[frontend]" imitated=best
    evaluator=evaluate_html evaluating=(--config "$configs/grading.yaml")
    num_train=200 num_test=200
fi
if [ -n "$smoke" ]; then
    num_train=16 num_test=8 sampling=(--data_fraction 0.1 --best_of_n 4) pairing=(--num_pairs 1)
    training=(--max_epochs 1)
fi
num_train="${train_count:-$num_train}"
train_tasks="$out/tasks/train.jsonl" test_tasks="$out/tasks/test.jsonl"

player() { player=(--agent_model "$1"); }

score_against() { :; } # the reference of ranking is the log-probs of sampling, whatever the model

mini_environment() { # the virtual environment with the package in it
    source scripts/environment.sh
    local needed="import sweet_rl"
    if [ -n "$extras" ]; then
        needed="import sweet_rl; from importlib.util import find_spec as found; "
        needed+="assert found('selenium') and found('efficientnet_lite_pytorch')"
    fi
    (cd / && python -c "$needed" 2>/dev/null) || pip_install -c constraints.txt -e ".$extras"
}

mini_tasks() {
    dir="$out"
    step "tasks" python scripts/make_mini_tasks.py --task_type "$task_type" --num_train $num_train \
        --num_test $num_test --output_dir "$out/tasks"
}

seed_files() { # seed_files NAME: the graded files of a method, one a seed, joined by +
    local joined="" number
    for number in $seeds; do joined="$joined${joined:++}$out/seed$number/$1.graded.jsonl"; done
    echo "$joined"
}
