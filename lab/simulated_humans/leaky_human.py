"""A simulated human of the mini tasks that shows lines of the hidden code in its answers.

    python scripts/simulate_interactions.py --task_type lab/simulated_humans/leaky_human.py --agent_model mini \
        --env_model leaky --input_path runs/mini/tasks/test.jsonl --output_path runs/leaky.jsonl
"""

from dataclasses import replace

from sweet_rl.dialogues import HumanReply, ScriptedHuman
from sweet_rl.dialogues.mini.domain import MINI
from sweet_rl.dialogues.mini.human import check_tasks
from sweet_rl.dialogues.mini.oracle import topic_of
from sweet_rl.dialogues.mini.tasks import family_of, rules_of


class LeakyHuman:
    async def reply(self, task, dialogue, seed):
        topic, mini = topic_of(dialogue[-1]["content"]), task.extra["mini"]
        flag = family_of(mini).flag
        for rule in rules_of(mini):
            if rule.topic == topic:
                return HumanReply(f"{rule.sentences(flag)[0]} In my code: {rule.line(flag)}")
        return HumanReply("I don't know.")


DOMAIN = replace(MINI, name="leaky", scripted_humans={"leaky": ScriptedHuman(LeakyHuman, check_tasks)})
