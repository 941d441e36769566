"""Flags, values, configs and scripts that moved out of the library, each with its new place. One line per name."""

from __future__ import annotations

from fnmatch import fnmatchcase

from sweet_rl.errors import UserError

FIELDS = "it is a setting of a critic of lab/critics now: --critic_type lab/critics/FILE.py --critic_settings '{...}'"
MOVED = {
    "--push_to_hub": "upload the finished output with `hf upload OWNER/NAME PATH` (docs/files.md)",
    "--pairs_together": "use --max_pairs_per_prompt",
    "--clip": FIELDS,
    "--top_tokens": FIELDS,
    "--purification": FIELDS,
    "--reply": FIELDS,
    "--critic_clip": FIELDS,
    "--critic_top_tokens": FIELDS,
    "--critic_purification": FIELDS,
    "--critic_reply": FIELDS,
    "--critic_type belief_gain": "use --critic_type lab/critics/belief_gain.py in a clone",
    "--critic_type purified": "use --critic_type lab/critics/purified.py in a clone",
    "--critic_type pmi_belief": "use --critic_type lab/critics/pmi_belief.py in a clone",
    "--*normalize sqrt": FIELDS,
    "--*normalize top": FIELDS,
    "--*hostname @*": "list the servers themselves: --hostname host1:8000,host2:8000",
    "--studies": "run `python -m lab.critics.measure_study --studies ...` in a clone",
    "--response_template": "turns are scored from their own prompts; leave it out",
    "--task_type": "web pages are made by `python -m lab.pages.make_page_tasks` and `make_page_agent` in a clone; the "
    "human who replies to candidates is a setting of a critic of lab/critics",
    "--informed_share": "run `python -m lab.taught.make_taught_agent` in a clone",
    "--task_type mini_html": "use --task_type lab/pages/domain.py in a clone",
    "--*model* mini_html": "use lab/pages/agent of a clone",
    "--pretrain mini_html": "use lab/pages/agent of a clone",
    "--config *mini_pretrained/*": "the files are in lab/smollm2/configs",
    "--config *mini/html/*": "the files are in lab/pages/configs",
    "--config *mini/policy_gradient.yaml": "use lab/policy_gradients/configs/mini.yaml",
    "--config *mini_hard/policy_gradient.yaml": "use lab/policy_gradients/configs/mini_hard.yaml",
    "sweet-rl study_credit": "run `python -m lab.critics.study_credit` in a clone",
    "sweet-rl humans": "run `python -m lab.simulated_humans.measure_humans` in a clone",
    "sweet-rl measure_humans": "run `python -m lab.simulated_humans.measure_humans` in a clone",
    "--human_matrix": "run `python -m lab.simulated_humans.human_matrix` in a clone",
    "sweet-rl audit": "run `python -m lab.task_audit.audit_tasks` in a clone",
    "sweet-rl audit_tasks": "run `python -m lab.task_audit.audit_tasks` in a clone",
    "sweet-rl train-pg": "run `python -m lab.policy_gradients.train_policy_gradient` in a clone",
    "sweet-rl train_policy_gradient": "run `python -m lab.policy_gradients.train_policy_gradient` in a clone",
}
"""What was typed, with `*` for any text -> what to do now. A flag alone applies if the script does not know it."""


def check_moved(typed: str, where: str) -> None:
    """Raise UserError if something that was typed has moved.

    Args:
        typed: A flag, a flag and its value, or a command: "--clip", "--task_type mini_html", "sweet-rl humans".
        where: Place where it was given, for the message.
    """
    for pattern, remedy in MOVED.items():
        if fnmatchcase(typed, pattern):
            raise UserError(f"{where} is no longer part of the library: {remedy}.")
