'''Command lines: the parameters of a script's `main` are its flags and the keys of `--config FILE.yaml`.

A parameter annotated with a dataclass is a group of settings, shared by scripts: each field becomes a flag, with
the field's type, default and help text (its line under `Attributes:` in the dataclass docstring). `--help` names
the flags of each group under the first sentence of the dataclass docstring; `--help all` adds the first sentence of
each text. For example:

    @dataclass(frozen=True)
    class Sampling:
        """How replies are sampled.

        Attributes:
            temperature: Sampling temperature; 0 is greedy.
            concurrency: Largest number of calls in progress.
        """
        temperature: float = 1.0
        concurrency: Annotated[int, UNRECORDED] = 64

    def main(
        input_path: Annotated[str, alias("data_path")],
        agent: Annotated[Sampling, prefix("agent_")] = Sampling(temperature=0.7),
        seed: int = 0,
    ) -> None:
        settings = to_settings(agent=agent, seed=seed)  # {"agent": {"temperature": 0.7}, "seed": 0}

    run(main)

Here the flags are --input_path (or --data_path), --agent_temperature, --agent_concurrency and --seed. A group
annotated `Group | None = None` is None unless one of its flags is given. A group checks its own values in
`__post_init__` and raises UserError naming the flag as `--field`. A clash of names raises TypeError.
`build(dataclass, mapping, where)` makes a dataclass of the value of a flag of type dict.
`run(main, released=TABLE)` also takes the command lines of the authors' release: released.py.
'''

from sweet_rl.runs.cli.command import parse, parse_flags, print_summary, read_config, run
from sweet_rl.runs.cli.groups import UNRECORDED, Flag, alias, build, flags_of, prefix, to_settings

__all__ = [
    "UNRECORDED",
    "Flag",
    "alias",
    "build",
    "flags_of",
    "parse",
    "parse_flags",
    "prefix",
    "print_summary",
    "read_config",
    "run",
    "to_settings",
]
