# shellcheck shell=bash disable=SC2034
# Sourced by a recipe: the protocol of its dialogues, from PROTOCOL (released or sweet_rl) and PROTOCOL_FILES. It sets
# PLAY and GRADE, the flags of every dialogue step and grading.

PLAY="--protocol ${PROTOCOL:=released} ${PROTOCOL_FILES:+--protocol_files $PROTOCOL_FILES} ${PLAY_FLAGS:-}" GRADE=""
if [ "$PROTOCOL" = released ]; then GRADE="--paper_grader"; fi
