"""The report of a run folder: one HTML page with its results, costs, trainings, dialogues and commands.

Figures, names and commands are HTML in which every text is escaped; dialogues are compressed data that the script
shows as text nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.runs.texts import write_texts
from sweet_rl.viewer.html_file import escaped, html_file, json_block, json_text
from sweet_rl.viewer.report_charts import Html, joined, tag
from sweet_rl.viewer.report_dialogues import side_by_side
from sweet_rl.viewer.report_figures import costs, trainings
from sweet_rl.viewer.report_folder import Output, RunFolder
from sweet_rl.viewer.report_results import headline, results

STYLES = ("viewer.css", "report.css")
SCRIPTS = (
    "page.js",
    "source.js",
    "code.js",
    "difference.js",
    "charts.js",
    "summary.js",
    "credit.js",
    "message.js",
    "dialogue.js",
    "report.js",
)
VERSIONS = ("sweet_rl", "python", "torch", "transformers", "accelerate", "numpy")
MADE_HERE = '<meta name="generator" content="sweet_rl report">'


@dataclass(frozen=True)
class ReportSettings:
    """The run folder and what is shown of it.

    Attributes:
        folder: Run folder: what a recipe (run_mini.sh, ...) or dodo.py calls OUT.
        output: HTML file; by default report.html in the folder.
        critic: Critic whose credit is shown: a folder, auto (the critic of the run folder, if its weights are at most
            1 GB) or none.
        overwrite: Replace an output that is not a report.
    """

    folder: str
    output: str | None = None
    critic: str | None = "auto"
    overwrite: bool = False


def write_report(wanted: ReportSettings) -> Path:
    """Write the report of a run folder and return its path. A report that is there is replaced.

    Raises:
        UserError: The folder holds no run, a file in it cannot be read, or the output is another file.
    """
    folder = RunFolder(wanted.folder)
    path = folder.path / "report.html" if wanted.output is None else Path(wanted.output)
    is_report = path.is_file() and MADE_HERE in path.read_text(encoding="utf-8", errors="replace")[:2000]
    write_texts({path: report_page(folder, wanted.critic)}, wanted.overwrite or is_report)
    return path


def report_page(folder: RunFolder, critic: str | None = "auto") -> str:
    """The whole page as HTML. Raises UserError if a file of the folder cannot be read."""
    main = next(iter(folder.tables.values()), None)
    dialogues = side_by_side(folder, main, critic) if main else None
    sections = {
        "Results": [results(title, table) for title, table in folder.tables.items()],
        "Success and cost": costs(folder.tables),
        "Trainings": trainings(folder),
        "Dialogues": [tag("div", id="tasks")] if dialogues else [],
        "Files": files(folder),
    }
    shown = {name: content for name, content in sections.items() if content}
    anchors = {name: name.lower().replace(" ", "-") for name in shown}
    title = folder.path.resolve().name
    body = [
        tag("header", tag("p", f"Run {title}", class_="kicker"), headline(main), progress(folder), class_="top"),
        tag("nav", [tag("a", name, href=f"#{anchor}") for name, anchor in anchors.items()], aria_label="Sections"),
        *[tag("section", tag("h2", name), content, id=anchors[name]) for name, content in shown.items()],
        tag("footer", made_by(folder), class_="quiet"),
    ]
    return html_file(
        "report.html",
        STYLES,
        SCRIPTS,
        generator=MADE_HERE,
        title=escaped(f"{title}: report"),
        body=joined(body),
        data=json_block("side-by-side", json_text(dialogues)) if dialogues else "",
    )


def progress(folder: RunFolder) -> Html | None:
    """What is missing and the next step; None if the recipe is finished."""
    if not folder.missing:
        return None
    steps = tag("ul", [tag("li", _numbered(number, what)) for number, what, _ in folder.missing])
    script = folder.missing[0][2]
    text = f"Next is scripts/{script}.py. The command of the recipe, given again, goes on where it stopped."
    return tag("div", tag("p", tag("b", "This run is not finished. "), text), steps, class_="unfinished", role="note")


def files(folder: RunFolder) -> list[Html]:
    """Each command with the outputs that it wrote, in the order in which they were started; later seeds in folds."""
    cards: dict[str, dict[str, list[Output]]] = {}
    for output in folder.outputs.values():
        seed = folder.path / output.name.split("/")[0]
        part = seed.name if seed in folder.seeds[1:] else ""
        cards.setdefault(part, {}).setdefault(output.command or output.name, []).append(output)
    lists = {
        part: tag("ol", [tag("li", step_card(outputs)) for outputs in by_command.values()], class_="steps")
        for part, by_command in cards.items()
    }
    commands = list(dict.fromkeys(output.command for output in folder.outputs.values() if output.command))
    rest = [name for name in ("results.json", "results.md", "results", "logs") if (folder.path / name).exists()]
    text = "In the order in which they were started. A manifest beside each has its settings and hashes of its inputs. "
    text += f"Without one: {', '.join(rest)}." if rest else ""
    return [
        tag("p", text, class_="quiet"),
        tag("p", _copy("Copy all commands", "\n".join(commands))) if commands else Html(),
        *(tag("details", tag("summary", part), made, class_="fold") if part else made for part, made in lists.items()),
    ]


def step_card(outputs: Sequence[Output]) -> list[Html]:
    """The outputs of one command, and the command; the settings if the manifest does not name the command."""
    items = []
    for output in outputs:
        facts = [f"{output.manifest['records']:,} records"] if "records" in output.manifest else []
        facts += [f"{output.manifest['cpu_seconds']:,.1f} CPU s"] if "cpu_seconds" in output.manifest else []
        facts += [] if output.finished else ["not finished"]
        what = _numbered(output.step.number, output.step.what) if output.step else ""
        items.append(
            tag("li", tag("code", output.name), tag("span", what), tag("span", ", ".join(facts), class_="quiet"))
        )
    written = tag("ul", items, class_="outputs")
    command, step = outputs[0].command, outputs[0].step
    if command is None:
        settings = json.dumps(outputs[0].manifest["settings"], indent=2, ensure_ascii=False)
        script = f"Settings of scripts/{step.script}.py" if step else "Settings"
        return [written, tag("details", tag("summary", script), tag("pre", settings, class_="code"), class_="fold")]
    first, *flags = command.split(" --")
    words = [tag("span", first), *[[" ", tag("span", f"--{flag}")] for flag in flags]]
    return [written, tag("div", tag("pre", tag("code", words)), _copy("Copy", command), class_="command")]


def _numbered(number: str, what: str) -> str:
    return f"step {number}: {what}" if number else what


def _copy(label: str, text: str) -> Html:
    return tag("button", label, type="button", class_="copy", data_text=text)


def versions_text(manifests: Iterable[Mapping[str, Any]]) -> str:
    """The versions of VERSIONS that the manifests name; if they differ, all of them."""
    found: dict[str, dict[str, None]] = {name: {} for name in VERSIONS}
    for manifest in manifests:
        for name, version in manifest.get("versions", {}).items():
            if name in found:
                found[name][str(version)] = None
    return ", ".join(f"{name} {' and '.join(versions)}" for name, versions in found.items() if versions)


def made_by(folder: RunFolder) -> str:
    """The versions of the run, and when it ended."""
    made = versions_text(output.manifest for output in folder.outputs.values())
    last = max(str(output.manifest.get("finished", "")) for output in folder.outputs.values())
    return f"Made with {made}. The last output was finished at {last.replace('T', ' ').removesuffix('Z')} UTC."
