"""Flags of steps 1 and 2 that command lines and configuration files out there use."""

import runpy
from pathlib import Path

import pytest

from sweet_rl.cli import flags_of

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
EVALUATION = """output_path input_path data_path k preference_path ground_truth_preference_path num_tasks tokenizer
    agent_model response_template eos_text bos_text grade_references in_place retry_failed seed overwrite task_type"""
FLAGS = {
    "simulate_interactions.py": """agent_model env_model input_path output_path hostname agent_hostname task_type
        num_tasks best_of_n temperature top_p max_tokens max_turns env_temperature env_max_tokens
        env_max_chars retry_leaks agent_prompt_path agent_prefix user_prompt_path agent_engine env_engine
        agent_tokenizer critic candidates critic_type critic_reference critic_reference_model_id critic_no_prompt
        critic_normalize critic_bf16 critic_hostname agent_request env_request agent_api_key_variable
        api_key_variable timeout browser browser_workers page_width page_height page_timeout patience concurrency
        endpoint_concurrency shard cache retry_failed seed overwrite""",
    "evaluate_code.py": EVALUATION + " timeout memory_mb workers sandbox paper_grader",
    "evaluate_html.py": EVALUATION
    + """ best_path min_gap baseline image_encoder device dtype browser browser_workers
        page_width page_height page_timeout javascript embedding_cache""",
}
DEFAULTS = {
    "simulate_interactions.py": {
        "task_type": "code", "best_of_n": 1, "max_turns": 10, "temperature": 1.0, "max_tokens": 1024,
        "env_temperature": 0.0, "env_max_tokens": 256, "retry_leaks": True, "candidates": 1, "concurrency": 256,
        "agent_tokenizer": "auto", "api_key_variable": "OPENAI_API_KEY", "seed": 0, "page_width": 1280,
    },
    "evaluate_code.py": {"task_type": "code", "k": 1, "timeout": 1.0, "memory_mb": 256, "sandbox": "auto"},
    "evaluate_html.py": {"task_type": "html", "k": 1, "dtype": "float32", "page_height": 720, "browser_workers": 2},
}  # fmt: skip


@pytest.mark.parametrize("script", FLAGS)
def test_every_flag_is_there_with_its_default_and_its_help(script):
    flags = flags_of(runpy.run_path(str(SCRIPTS / script))["main"])
    names = {name for flag in flags.values() for name in (flag.name, *flag.aliases)}
    assert set(FLAGS[script].split()) <= names
    assert {name: flags[name].default for name in DEFAULTS[script]} == DEFAULTS[script]
    assert [name for name, flag in flags.items() if not flag.help] == []
