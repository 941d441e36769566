#!/usr/bin/env bash
# Every table and figure of the paper as one command: it runs what is missing, continues what was stopped, and ends in a
# table and a plot beside the paper's figures.
#
#   bash scripts/reproduce.sh table2 --mini                   # the tiny agent, on two CPU cores, 5 seeds
#   bash scripts/reproduce.sh table3 figure3a --mini --seeds 1
#   bash scripts/reproduce.sh all --mini --page results/mini  # all of them, and a page of results in that folder
#   bash scripts/reproduce.sh table2 --paper --hostname node1:8000 --train_tasks train.jsonl --test_tasks test.jsonl
#   bash scripts/reproduce.sh table3 --paper --dry_run        # every command with its settings
#
#   table2     single turn, zero-shot, rejection fine-tuning, multi-turn DPO, SWEET-RL; success against cost
#   table3     SWEET-RL with other critics: regression head, without training-time information, without length
#              normalisation; --mini also one mean for the dialogue, no critic training, the paper's reference;
#              length of replies
#   table4     a stronger agent trained on a weaker one's dialogues
#   figure3a   the best of N candidates at every turn, by each critic; --mini: N to 16, on 200 tasks
#   figure3b   rejection fine-tuning, multi-turn DPO and SWEET-RL on 20, 60 and 100 % of the dialogues
#   credit     --mini: how often each critic's ranking agrees with the oracle, by turn
#   all        all of these
#
#   --mini | --paper         the tiny agent and tasks (default), or the paper's models and settings
#   --seeds N                seeds 0 to N-1 (default: 5 with --mini, 1 with --paper)
#   --iterations N           table2: collect with the new policy and train again, N rounds in all (default 1)
#   --output DIR             default runs/reproduce-mini, runs/reproduce-mini-smoke or runs/reproduce-paper
#   --dry_run                print every command with its settings, run none
#   --smoke                  --mini: every step on a handful of tasks
#   --page DIR               --mini: write a page of the results with tables and figures there
#   --judge MODEL            figure3a: an LLM as a judge (--paper: default the untrained agent)
#   --judge_hostname LIST    server(s) of the judge
#   --strong_model NAME      --paper, table4: default meta-llama/Llama-3.1-70B-Instruct
#   --hosted                 --paper, table2: also GPT-4o and o1-mini, through the hosted API (OPENAI_API_KEY)
#   --frontend_hostname LIST --paper, table2: server(s) of the vision human; without it the frontend columns are left out
#
# With --paper all options of run_backend.sh but --methods work too (its --help tells them).
# The seeds' artefacts (dialogues, pairs, candidates, critics) lie in DIR/seedN and are shared by all targets.
set -euo pipefail

me=reproduce.sh mode=mini seed_count="" iterations=1 reproduce_output="" smoke="" page="" hosted="" targets=""
judge="" judge_hostname="" strong_model=meta-llama/Llama-3.1-70B-Instruct frontend_hostname="" backend_options=()
dry_run_asked=""
everything="table2 table3 table4 figure3a figure3b credit"

fail() { echo "$me: $*" >&2; exit 2; }

while [ $# -gt 0 ]; do
    case "$1" in
        table2 | table3 | table4 | figure3a | figure3b | credit) targets="$targets $1"; shift ;;
        all) targets=all; shift ;;
        --mini) mode=mini; shift ;;
        --paper) mode=paper; shift ;;
        --smoke) smoke=1; shift ;;
        --hosted) hosted=1; shift ;;
        --dry_run) dry_run_asked=1; shift ;;
        -h | --help) sed -n '2,/^set /s/^#\( \|$\)//p' "$0"; exit 0 ;;
        --seeds | --iterations | --output | --page | --judge | --judge_hostname | --strong_model | --frontend_hostname)
            [ $# -gt 1 ] || fail "$1 needs a value"
            case "$1" in
                --seeds) seed_count="$2" ;;
                --output) reproduce_output="$(realpath -m "$2")" ;;
                --page) page="$(realpath -m "$2")" ;;
                *) printf -v "${1#--}" %s "$2" ;;
            esac
            shift 2 ;;
        --*) backend_options+=("${@:1:2}"); shift; [ $# = 0 ] || shift ;;
        *) fail "unknown target $1 (there are $everything all)" ;;
    esac
done
if [ "$targets" = all ]; then
    [ $mode = mini ] && targets="$everything" || targets="${everything% credit}"
fi
[ -n "$targets" ] || fail "no target (there are $everything all)"
[ $mode = paper ] || [ ${#backend_options[@]} = 0 ] || fail "unknown option ${backend_options[0]} (see --help)"
[ $mode = paper ] && default_seeds=1 || default_seeds=5
for number in "${seed_count:=$default_seeds}" "$iterations"; do
    [[ "$number" =~ ^[1-9][0-9]*$ ]] || fail "--seeds and --iterations must be whole numbers above 0, found $number"
done
seeds="$(seq -s ' ' 0 $((seed_count - 1)))"

if [ $mode = mini ]; then
    [ ! -d "$judge" ] || judge="$(realpath "$judge")"
    cd "$(dirname "$0")/.."
    out="${reproduce_output:-runs/reproduce-mini${smoke:+-smoke}}" dry_run="$dry_run_asked"
    source scripts/mini.sh
    if [ -z "$dry_run" ]; then
        mini_environment
        python -c "import matplotlib" 2>/dev/null || pip_install -c constraints.txt matplotlib
        mkdir -p "$out"
    fi
    mini_tasks
    acting=(--critic_reference sampled) best_of="2 4 8 16" act_tasks=(--num_tasks 200) first_tasks=(--k 4)
    shares="10:40 30:120" all_dialogues=200 # tasks:dialogues
    strong="$out/strong_agent" strong_flags=(--layers 4 --width 160 --habits better)
    if [ -n "$smoke" ]; then
        best_of=2 shares="10:40" all_dialogues=64
        strong_flags=(--layers 1 --width 64 --habits better --num_steps 3 --batch_size 4)
    fi
else
    source "$(dirname "$0")/backend.sh"
    output=runs/reproduce-paper
    for ((i = 0; i < ${#backend_options[@]}; i += 2)); do
        [ "${backend_options[i]}" != --seed ] || fail "unknown option --seed (there is --seeds N)"
        backend_option "${backend_options[@]:i:2}"
    done
    output="${reproduce_output:-$output}" dry_run="$dry_run_asked"
    backend_setup
    out="$output" strong="$strong_model"
    acting=(--critic_reference_model_id "$agent_model") best_of="2 4 8 16 32" act_tasks=()
    [ "$gpus" = 0 ] || acting+=(--critic_bf16)
    first_tasks=(--tokenizer "$agent_model") shares="1000:3000 3000:9000" all_dialogues=15000 judge="${judge:-$agent_model}"
    [ "$judge" != "$agent_model" ] || judge_hostname="${judge_hostname:-$agent_hostname}"
fi
results="$out/results"
[ -n "$dry_run" ] || mkdir -p "$results"


# --- What the targets are made of. Each function runs its steps with $agent in $dir; what is done is passed over.

dialogues() { # the seed's offline data: the same for every method
    once collect
    once grade
}

single_turn() {
    step_name="evaluate single_turn: dialogues" play single_turn "$agent" "$test_tasks" \
        "$dir/single_turn${1:+_$1}.test.jsonl" "$seed"
    step "evaluate single_turn: grades" python "scripts/$evaluator.py" \
        --input_path "$dir/single_turn${1:+_$1}.test.jsonl" --output_path "$dir/single_turn${1:+_$1}.graded.jsonl" \
        "${evaluating[@]}"
}

untrained_both() {
    evaluate zero_shot "$agent"
    single_turn
}

untrained_and_dpo() {
    evaluate zero_shot "$agent"
    multi_turn_dpo
}

train_without_c() { critic critic_without_c pairs; }
train_value_head() { train "the critic (regression head)" train_value value_critic "$dir/pairs_with_c.jsonl" "$dir/critic_regression_head"; }
train_value_function() { train "the value function" train_value value_function "$dir/rewarded.jsonl" "$dir/value_function"; }

rank_by_value() { # rank_by_value NAME MODEL
    local precision=()
    [ $mode = mini ] || [ "$gpus" != 0 ] || precision=(--nobf16)
    step "rank candidates ($1)" python scripts/rank_best_of_n.py --config "$configs/value_ranking.yaml" --model_id "$2" \
        --input_path "$dir/candidates.jsonl" --output_path "$dir/ranked_$1.jsonl" "${precision[@]}"
}

rank_regression_head() { once train_value_head && once rank_by_value regression_head "$dir/critic_regression_head"; }
rank_without_c() { once train_without_c && once rank without_c "$dir/critic_without_c" --no_prompt; }
rank_without_normalisation() {
    once critic critic_without_normalisation pairs_with_c --normalize none
    once rank without_normalisation "$dir/critic_without_normalisation" --normalize none
}
rank_one_mean() {
    once critic critic_one_mean pairs_with_c --normalize trajectory
    once rank one_mean "$dir/critic_one_mean" --normalize trajectory
}

rank_by_seed_reference() { once rank seed "$dir/critic" --reference seed --reference_model_id "$agent"; }

ablations_one() {
    rank_regression_head
    policy regression_head
    [ $mode != paper ] || return 0
    once rank untrained "$agent"
    policy untrained
    rank_by_seed_reference
    policy seed
}

ablations_two() {
    rank_without_c
    policy without_c
    rank_without_normalisation
    policy without_normalisation
    [ $mode = paper ] || { rank_one_mean && policy one_mean; }
}

act() { # act NAME NUMBERS OPTIONS...: at every turn the one of N candidates that a critic prefers, for each of NUMBERS
    local n
    for n in $2; do evaluate "act_$1_$n" "$agent" --candidates "$n" "${act_tasks[@]}" "${@:3}"; done
}

act_without_c() { act without_c "$1" --critic "$dir/critic_without_c" --critic_no_prompt "${acting[@]}"; }

act_one() { # with the largest number of the third critic: the two take equally long
    act sweet "$best_of" --critic "$dir/critic" "${acting[@]}"
    [ -z "$judge" ] ||
        act judge "$best_of" --critic_type judge --critic "$judge" \
            ${judge_hostname:+--critic_hostname "$judge_hostname"}
    act_without_c "${best_of##* }"
}

act_two() {
    local precision=()
    [[ " ${acting[*]} " != *" --critic_bf16 "* ]] || precision=(--critic_bf16)
    act value "$best_of" --critic_type value --critic "$dir/value_function" "${precision[@]}"
    act_without_c "${best_of%"${best_of##* }"}"
}

in_folder() { # in_folder NAME FUNCTION...: runs it with $dir a folder below, on the same dialogues
    local trajectories="${trajectories:-$dir/trajectories.jsonl}" dir="$dir/$1"
    [ -n "$dry_run" ] || mkdir -p "$dir"
    "${@:2}"
}

from_dialogues() { # from_dialogues FUNCTION [GRADING...]: the methods on $trajectories; FUNCTION: multi-turn DPO, and more
    grade "${@:2}"
    sweet_and "$1"
}

on_the_stronger_agent() { # the methods, started from the stronger agent
    local agent="$strong" scoring=("${scoring[@]}") candidates_host=""
    [ "$strong" != "${env_model:-}" ] || candidates_host="$hostname"
    score_against "$strong"
    in_folder strong from_dialogues untrained_and_dpo
}

next_round() { # next_round FOLDER: dialogues of the policy in FOLDER, and SWEET-RL on them, started from that policy
    local agent="$1/sweet" scoring=("${scoring[@]}") candidates_host=""
    score_against "$agent"
    collect
    grade
    sweet
}

rounds() {
    local number before="$dir" trajectories=""
    for number in $(seq 2 "$iterations"); do
        local dir="$out/seed$seed/round$number"
        [ -n "$dry_run" ] || mkdir -p "$dir"
        next_round "$before"
        before="$dir"
    done
}

other_models() { # --paper: the models that Table 2 compares with, single turn and multi-turn
    local name agent
    for name in strong ${hosted:+gpt-4o o1-mini}; do
        [ "$name" = strong ] && agent="$strong_model" || agent="$name"
        evaluate "multi_turn_$name" "$agent"
        single_turn "$name"
    done
}

frontend() { # --paper: the frontend columns of Table 2
    local options=(--hostname "$frontend_hostname" --output "$dir/frontend" --seed "$seed" --agent_model "$agent_model")
    options+=(--engine "$engine" --gpus "$gpus")
    [ -z "$agent_hostname" ] || options+=(--agent_hostname "$agent_hostname")
    [ -z "$launch" ] || options+=(--launcher "$launch")
    [ -z "$num_tasks" ] || options+=(--num_tasks "$num_tasks")
    bash scripts/run_frontend.sh ${dry_run:+--dry_run} "${options[@]}"
}

# --- Tables and figures

files_of() { # files_of NAME: the files of a run, one a seed, joined by +
    local joined="" number
    for number in $seeds; do joined="$joined${joined:++}$out/seed$number/$1.jsonl"; done
    echo "$joined"
}

add() { # add NAME FILE: one more run of the table
    runs="${runs:+$runs,}$1=$(files_of "$2.graded")"
}

table() { # table NAME [OPTIONS...]: the figures of $runs as results/NAME.json, .md and .tex
    dir="$out" step "results: $1" python scripts/compare_runs.py --runs "$runs" --overwrite \
        --output_path "$results/$1.json" --markdown_path "$results/$1.md" --latex_path "$results/$1.tex" "${@:2}"
}

plot() { # plot KIND NAME PICTURE [OPTIONS...]: results/PICTURE.png and .svg
    dir="$out" step "plot: $3" python visualizers/plot_results.py --kind "$1" --results "$results/$2.json" \
        --output_path "$results/$3" "${@:4}"
}

plot_as_paper() { # plot_as_paper KIND NAME: beside the paper's figures of that name
    local name="${2/table/Table }" title=()
    [ $mode = paper ] || title=(--title "${name/figure/Figure }, on the mini tasks")
    plot "$1" "$2" "$2" --paper "$2" "${title[@]}"
}

for_each_seed() { # for_each_seed FUNCTION
    local seed dir
    for seed in $seeds; do
        dir="$out/seed$seed"
        [ -n "$dry_run" ] || mkdir -p "$dir"
        "$1"
    done
}

table2_seed() {
    beside "$dir/untrained.log" untrained_both
    dialogues
    joined "$dir/untrained.log"
    sweet_and multi_turn_dpo
    rounds
    [ $mode = mini ] || other_models
    [ -z "$frontend_hostname" ] || frontend
}

table2() {
    local runs="" number
    for_each_seed table2_seed
    add "single turn" single_turn
    if [ $mode = paper ]; then
        for name in strong ${hosted:+gpt-4o o1-mini}; do
            case "$name" in strong) number=Llama-3.1-70B-Instruct ;; gpt-4o) number=GPT-4o ;; *) number="$name" ;; esac
            add "single turn ($number)" "single_turn_$name"
            add "multi-turn ($number)" "multi_turn_$name"
        done
    fi
    add "zero-shot" zero_shot
    add "rejection fine-tuning" rft
    add "multi-turn DPO" dpo
    add "SWEET-RL" sweet
    for number in $(seq 2 "$iterations"); do add "SWEET-RL (round $number)" "round$number/sweet"; done
    table table2 --paper table2 --baselines "zero-shot" \
        --chains "SWEET-RL>multi-turn DPO>rejection fine-tuning>zero-shot"
    plot_as_paper table table2
    plot budget table2 budget --title "Success against cost"
    [ -n "$frontend_hostname" ] || return 0
    runs=""
    add "zero-shot" frontend/zero_shot
    add "rejection fine-tuning" frontend/rft
    add "multi-turn DPO" frontend/dpo
    add "SWEET-RL" frontend/sweet
    table table2_frontend --paper table2 --baselines "zero-shot" \
        --chains "SWEET-RL>multi-turn DPO>rejection fine-tuning>zero-shot"
    plot table table2_frontend table2_frontend --paper table2
}

table3_seed() {
    dialogues
    once train_critic
    once candidates
    beside "$dir/ablations.log" ablations_two
    sweet
    ablations_one
    joined "$dir/ablations.log"
}

table3() {
    local runs=""
    for_each_seed table3_seed
    add "SWEET-RL" sweet
    add "regression head" sweet_regression_head
    add "without training-time information" sweet_without_c
    add "without length normalisation" sweet_without_normalisation
    if [ $mode = mini ]; then
        add "one mean for the dialogue" sweet_one_mean
        add "no critic training" sweet_untrained
        add "seed model as reference" sweet_seed
    fi
    table table3 --paper table3 --baselines SWEET-RL
    plot_as_paper table table3
    plot lengths table3 table3_lengths --title "Length of the agent's messages"
}

table4() {
    local runs=""
    if [ $mode = mini ]; then
        dir="$out" step "the stronger agent" python scripts/make_mini_agent.py --save_path "$strong" "${strong_flags[@]}"
    fi
    for_each_seed table4_seed
    add "zero-shot" strong/zero_shot
    add "rejection fine-tuning" strong/rft
    add "multi-turn DPO" strong/dpo
    add "SWEET-RL" strong/sweet
    table table4 --paper table4 --baselines "zero-shot" \
        --chains "SWEET-RL>multi-turn DPO>rejection fine-tuning,SWEET-RL>zero-shot"
    plot_as_paper table table4
}

table4_seed() {
    once collect
    on_the_stronger_agent
}

figure3a_seed() {
    beside "$dir/untrained.log" evaluate act_1 "$agent" "${act_tasks[@]}"
    dialogues
    joined "$dir/untrained.log"
    beside "$dir/critics.log" other_critics
    once train_critic
    joined "$dir/critics.log"
    beside "$dir/acting.log" act_two
    act_one
    joined "$dir/acting.log"
}

other_critics() {
    once train_value_function
    once train_without_c
}

figure3a() {
    local runs="" entry name file n chains=""
    local critics=("SWEET critic|sweet" "value function|value" "without training-time information|without_c")
    [ -z "$judge" ] || critics+=("LLM as a judge|judge")
    for_each_seed figure3a_seed
    for entry in "${critics[@]}"; do
        name="${entry%%|*}" file="${entry#*|}"
        add "$name@1" act_1
        for n in $best_of; do add "$name@$n" "act_${file}_$n"; done
    done
    for n in $best_of; do
        for entry in "${critics[@]:1}"; do chains="$chains${chains:+,}SWEET critic@$n>${entry%%|*}@$n"; done
    done
    chains="$chains,SWEET critic@${best_of##* }>SWEET critic@1"
    table figure3a --chains "$chains"
    plot_as_paper curves figure3a
}

figure3b_seed() {
    local entry
    beside "$dir/untrained.log" evaluate zero_shot "$agent"
    dialogues
    joined "$dir/untrained.log"
    sweet_and multi_turn_dpo
    for entry in $shares; do
        local grading=("${first_tasks[@]}" --num_tasks "${entry%%:*}")
        in_folder "first_${entry%%:*}_tasks" from_dialogues multi_turn_dpo
    done
}

figure3b() {
    local runs="" method name file entry
    for_each_seed figure3b_seed
    for method in "rejection fine-tuning|rft" "multi-turn DPO|dpo" "SWEET-RL|sweet"; do
        name="${method%%|*}" file="${method#*|}"
        add "$name@0" zero_shot
        for entry in $shares; do add "$name@${entry#*:}" "first_${entry%%:*}_tasks/$file"; done
        add "$name@$all_dialogues" "$file"
    done
    table figure3b
    plot_as_paper curves figure3b
}

credit_seed() {
    dialogues
    once train_critic
    once candidates
    beside "$dir/credit.log" other_rankings
    once rank "" "$dir/critic"
    rank_regression_head
    rank_by_seed_reference
    once rank untrained "$agent"
    joined "$dir/credit.log"
}

other_rankings() {
    rank_without_c
    rank_without_normalisation
    rank_one_mean
    once train_value_function
    once rank_by_value value_function "$dir/value_function"
}

credit() {
    [ $mode = mini ] || fail "the oracle knows the mini tasks only: credit needs --mini"
    for_each_seed credit_seed
    dir="$out" step "results: credit" python scripts/measure_mini_credit.py --overwrite \
        --output_path "$results/credit.json" --markdown_path "$results/credit.md" --runs \
"SWEET critic=$(files_of ranked),SWEET critic (seed reference)=$(files_of ranked_seed),\
regression head=$(files_of ranked_regression_head),value function=$(files_of ranked_value_function),\
without training-time information=$(files_of ranked_without_c),\
without length normalisation=$(files_of ranked_without_normalisation),\
one mean for the dialogue=$(files_of ranked_one_mean),no critic training=$(files_of ranked_untrained)"
    plot credit credit credit --title "Agreement with the oracle"
}

for target in $targets; do
    echo "=== $target"
    "$target"
done
if [ -n "$page" ] && [ $mode = mini ]; then
    dir="$out" step "page of results" python scripts/write_results_page.py --input_dir "$results" --output_dir "$page" \
        --command "bash scripts/reproduce.sh {target} --mini --seeds {seeds}${smoke:+ --smoke}" --overwrite
fi
echo "tables and figures: $results; $SECONDS s in all"
