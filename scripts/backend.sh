# Sourced by run_backend.sh and reproduce.sh --paper: the options of a run with the paper's settings, and what the steps
# need of them. The caller sets `me`, the script's name in messages. What the options mean: run_backend.sh --help.

# shellcheck disable=SC2034  # the variables are read by steps.sh and by the caller
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

hostname="" agent_hostname="" engine=auto gpus="" launch="" seed=0 output=runs/backend dry_run=""
train_tasks=data/backend_tasks/train.jsonl test_tasks=data/backend_tasks/test.jsonl trajectories="" response_template=""
agent_model=meta-llama/Llama-3.1-8B-Instruct env_model=meta-llama/Llama-3.1-70B-Instruct num_tasks=""
agent_prompt_path="" user_prompt_path="" hosted_models="gpt-4o o1-mini"
known=" hostname agent_hostname engine gpus launcher seed output train_tasks test_tasks trajectories response_template \
agent_model env_model num_tasks agent_prompt_path user_prompt_path "

fail() { echo "$me: $*" >&2; exit 2; }

backend_option() { # backend_option NAME VALUE: one option of the command line
    local name="${1#--}"
    [ "${1#--}" != "$1" ] || fail "$1 has no option before it"
    [[ "$known" == *" $name "* ]] || fail "unknown option $1 (known:$known--dry_run)"
    [ $# -gt 1 ] || fail "$1 needs a value"
    [ "$name" != launcher ] || name=launch
    printf -v "$name" %s "$2"
}

pipeline_options() { # pipeline_options "$@": those of run_backend.sh and run_frontend.sh, into variables of their names
    local method
    while [ $# -gt 0 ]; do
        case "$1" in
            --dry_run) dry_run=1; shift ;;
            -h | --help) sed -n '2,/^set /s/^#\( \|$\)//p' "$0"; exit 0 ;;
            *) backend_option "${@:1:2}"; shift 2 ;;
        esac
    done
    for method in $methods; do
        case "$method" in
            rejection_fine_tuning | multi_turn_dpo | sweet) ;;
            *) fail "unknown method $method (there are rejection_fine_tuning, multi_turn_dpo, sweet)" ;;
        esac
    done
}

backend_setup() { # checks what is there and sets the variables of steps.sh; called in the folder of the call
    local file model
    [ -n "$hostname" ] || [ -n "$dry_run" ] || [ -d "$env_model" ] || [[ "$env_model" =~ ^(mini|designer)$ ]] ||
        fail "--hostname is missing: the server of the simulated human $env_model"
    for file in train_tasks test_tasks trajectories agent_prompt_path user_prompt_path output; do
        # Paths are the caller's; a bare prompt name is one of the package's own.
        [ -z "${!file}" ] || [[ "$file" == *prompt* && ! -e "${!file}" ]] ||
            printf -v "$file" %s "$(realpath -m "${!file}")"
    done
    for model in agent_model env_model; do
        [ ! -d "${!model}" ] || printf -v "$model" %s "$(realpath "${!model}")"
    done
    cd "$(dirname "${BASH_SOURCE[0]}")/.."

    if [ -z "$gpus" ]; then
        gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l) || gpus=0
        [ -z "$dry_run" ] || [ "$gpus" != 0 ] || gpus=8
    fi
    training=()
    if [ "$gpus" = 0 ]; then
        launcher=(python) training=(--zero_stage none --nobf16 --nogradient_checkpointing)
    else
        read -ra launcher <<<"${launch:-torchrun --nproc_per_node $gpus}"
    fi
    if [ -z "$dry_run" ]; then
        (cd / && python -c "import sweet_rl" 2>/dev/null) ||
            fail "sweet_rl is not installed here: pip install -e '.[vllm,deepspeed]'"
        [ "$gpus" = 0 ] || python -c "import deepspeed" 2>/dev/null || fail "DeepSpeed is missing: pip install deepspeed"
        mkdir -p "$output"
    fi

    configs=configs/paper/backend agent="$agent_model" dir="$output" candidates_host="$agent_hostname"
    collecting=() sampling=() grading=(--tokenizer "$agent_model") texts=() playing=(--env_model "$env_model")
    [ -z "$hostname" ] || playing+=(--hostname "$hostname")
    [ -z "$agent_prompt_path" ] || playing+=(--agent_prompt_path "$agent_prompt_path")
    [ -z "$user_prompt_path" ] || playing+=(--user_prompt_path "$user_prompt_path")
    [ -z "$num_tasks" ] || { playing+=(--num_tasks "$num_tasks") && grading+=(--num_tasks "$num_tasks"); }
    [ -z "$response_template" ] || texts=(--response_template "$response_template")
    score_against "$agent"
}

score_against() { # score_against MODEL: candidates are ranked with this model as the reference
    scoring=(--reference_model_id "$1")
    [ "$gpus" != 0 ] || scoring+=(--nobf16)
}

player() { # player MODEL: on the server that has it, if there is one, or behind the hosted API
    if [[ " $hosted_models " == *" $1 "* ]]; then
        player=(--agent_model "$1" --agent_engine openai)
    elif [ "$1" = "$env_model" ] && [ -n "$hostname" ]; then
        player=(--agent_model "$1" --agent_hostname "$hostname")
    elif [ "$1" = "$agent_model" ] && [ -n "$agent_hostname" ]; then
        player=(--agent_model "$1" --agent_hostname "$agent_hostname")
    else
        player=(--agent_model "$1" --agent_engine "$engine")
    fi
}
