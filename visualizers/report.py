"""One page about a run folder: results with intervals, costs, trainings, dialogues side by side, and every command.

    python visualizers/report.py --folder runs/mini                          writes runs/mini/report.html
    python visualizers/report.py --folder runs/quick --output quick.html     a folder of dodo.py
    python visualizers/report.py --folder runs/backend --critic none         without the credit of turns

The page needs no network and no server, and runs no script but its own. Of a run that is not finished it shows what is
there and what is missing.
"""

from sweet_rl.runs.cli import run
from sweet_rl.viewer.report import ReportSettings, write_report


def main(report: ReportSettings) -> None:
    """Write the report of a run folder."""
    path = write_report(report)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB. Open it in a browser; it needs no network.")


if __name__ == "__main__":
    run(main)
