# shellcheck shell=bash
# Sourced by the recipes of the studies: the steps of the method. A recipe sets AGENT, CONFIGS, SEED and RUN, the folder of its
# files; where a step takes a file, NAME stands for RUN/NAME.jsonl and /PATH/NAME for /PATH/NAME.jsonl. DOMAIN has the flags of
# another domain than the mini tasks.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source-path=SCRIPTDIR source=../scripts/environment.sh
source scripts/environment.sh
install "[train]" sweet_rl transformers
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE="${HF_HUB_OFFLINE:-1}"
DOMAIN=()

file() {
    case "$1" in
        /*) echo "$1.jsonl" ;;
        *) echo "$RUN/$1.jsonl" ;;
    esac
}
dialogues() { # dialogues NAME CONFIG AGENT TASKS SEED FLAGS: step 1
    python scripts/simulate_interactions.py --config "$CONFIGS/$2.yaml" "${DOMAIN[@]}" --agent_model "$3" --input_path "$(file "$4")" \
        --output_path "$RUN/$1.jsonl" --seed "$5" "${@:6}"
}
grade() { # grade NAME FLAGS: step 2, into NAME.graded
    python scripts/evaluate_code.py "${DOMAIN[@]}" --input_path "$RUN/$1.jsonl" --output_path "$RUN/$1.graded.jsonl" "${@:2}"
}
play() { # play NAME TASKS BEST_OF_N AGENT FLAGS: steps 1 and 2 on training tasks, and NAME.pairs of dialogues, NAME.pairs_with_c
    dialogues "$1" collection "$4" "$2" $((SEED + 1000)) --best_of_n "$3" "${@:5}"
    grade "$1" --k "$3" --preference_path "$RUN/$1.pairs.jsonl" --ground_truth_preference_path "$RUN/$1.pairs_with_c.jsonl"
}
imitate() { # imitate MODEL DIALOGUES PRETRAIN FLAGS: rejection fine-tuning
    python scripts/train_sft.py --config "$CONFIGS/rejection_fine_tuning.yaml" --pretrain "$3" --dataset "$(file "$2")" \
        --save_path "$RUN/$1" --seed "$SEED" "${@:4}"
}
prefer() { # prefer MODEL PAIRS CONFIG FLAGS: DPO, of a critic (step 3) or a policy (step 7)
    python scripts/train_dpo.py --config "$CONFIGS/$3.yaml" --pretrain "$AGENT" --dataset "$(file "$2")" --save_path "$RUN/$1" \
        --seed "$SEED" "${@:4}"
}
sample() { # sample DIALOGUES FLAGS: step 4, into candidates
    python scripts/sample_best_of_n.py --config "$CONFIGS/sampling.yaml" --model_id "$AGENT" --seed "$SEED" \
        --input_path "$RUN/$1.jsonl" --output_path "$RUN/candidates.jsonl" "${@:2}"
}
rank() { # rank NAME CANDIDATES FLAGS: step 5, into NAME.ranked
    python scripts/rank_best_of_n.py --input_path "$(file "$2")" --output_path "$RUN/$1.ranked.jsonl" "${@:3}"
}
pair() { # pair RANKED RULE: step 6, into RANKED-RULE.turn_pairs
    python scripts/generate_random_pairs_from_ranks.py --config "$CONFIGS/turn_pairs.yaml" --rule "$2" --seed "$SEED" \
        --input_path "$RUN/$1.ranked.jsonl" --output_path "$RUN/$1-$2.turn_pairs.jsonl"
}
evaluate() { # evaluate NAME AGENT TASKS FLAGS: step 8, steps 1 and 2 on test tasks
    dialogues "$1" "${EVALUATION:-evaluation}" "$2" "$3" "$SEED" "${@:4}"
    grade "$1" | grep '^success' | sed "s|^|$1: |"
}
