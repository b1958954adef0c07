"""Implement `agentchat eval report`: print and write the verdict on results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agentchat.contracts.text_checks import format_count
from agentchat.evals import reports
from agentchat.evals.case_results import CaseResult
from agentchat.evals.suite import RESULTS, Suite, read_lines, write_file
from agentchat.evals.verdict import Comparison, SuiteVerdict, decide_verdict
from agentchat.ops import printing
from agentchat.ops.admin.options import AsJson
from agentchat.ops.errors import SetupError
from agentchat.ops.evals.suite_folder import SuiteFolder, open_suite, translate_suite_errors

ResultsOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help=f"The results; {RESULTS} in the suite if unset.")
]
BaselineOption = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", help="Compare with an earlier run's results."),
]
JunitOption = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML, for a CI server.")
]
MarkdownOption = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown, for a pull request.")
]


def report(
    suite: SuiteFolder,
    results: ResultsOption = None,
    baseline: BaselineOption = None,
    junit: JunitOption = None,
    markdown: MarkdownOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the verdict on the last run.

    Nothing is run or judged. Exit code 1: something regressed. Exit code 2: too little is known.
    """
    found = open_suite(suite)
    path = results or found.folder / RESULTS
    if not path.is_file():
        raise SetupError(f"{path} does not exist: `agentchat eval run` writes it")
    with translate_suite_errors():
        decided = write_verdict(found, read_lines(path, CaseResult), baseline, junit=junit, markdown=markdown)
    if as_json:
        printing.print_json(decided)
    else:
        print_verdict(decided)
    if decided.exit_code:
        raise typer.Exit(decided.exit_code)


def write_verdict(
    suite: Suite,
    results: Sequence[CaseResult],
    baseline: Path | None,
    *,
    junit: Path | None,
    markdown: Path | None,
) -> SuiteVerdict:
    """Decide, and write the reports. Raises UnfitSuite."""
    earlier = None if baseline is None else read_lines(baseline, CaseResult)
    found, name = decide_verdict(suite.settings, results, earlier), suite.folder.resolve().name
    if junit is not None:
        write_file(junit, reports.render_junit(found, results, name))
    if markdown is not None:
        write_file(markdown, reports.render_markdown(found, results, name).encode())
    return found


def print_verdict(found: SuiteVerdict) -> None:
    """Print the comparisons and the reasons for the verdict."""
    printing.print_table(
        ("EVALUATOR", "CASES", "NUMBER", "BEFORE", "AFTER", "DIFFERENCE", "95 %", "STATE"),
        [_build_row(each) for each in found.shown],
    )
    for line in (*found.failures, found.counted, *found.reasons, _describe_verdict(found)):
        printing.print_note(line)


def _build_row(each: Comparison) -> Sequence[object]:
    found = each.found
    return (
        each.evaluator,
        each.where,
        found.count,
        f"{found.before:.1%}",
        f"{found.after:.1%}",
        f"{found.value:+.1%}",
        each.interval,
        each.state.replace("_", " "),
    )


def _describe_verdict(found: SuiteVerdict) -> str:
    match found.exit_code:
        case 0:
            return "no regression"
        case 1:
            worst = f", such as {found.changes[0].case_id}" if found.changes else ""
            return f"regression; {format_count(len(found.changes), 'case')} got worse{worst}"
        case 2:
            return "no verdict: too little is known"
