"""`agentchat eval report` and `baseline`: a run's verdict printed and written, and kept to compare with."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.suite import Suite, read_file, write_file
from ops import printing
from ops.admin.options import AsJson
from ops.evals.show_suite import SuiteFolder, suite_at, suite_errors
from ops.evals.suite_session import RESULTS
from ops.output import counted

if TYPE_CHECKING:
    from evals.verdict.comparisons import ScoreComparison
    from evals.verdict.verdict import SuiteVerdict

BASELINE = "baseline.jsonl"
_STATES = {"regressed": "worse", "too_small": "too few cases to tell"}

ResultsOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help=f"The results; {RESULTS} in the suite if unset.")
]
JunitOption = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML, for a CI server.")
]
MarkdownOption = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown, for a pull request.")
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the replies side by side.")
]


def report(
    suite: SuiteFolder,
    results: ResultsOption = None,
    junit: JunitOption = None,
    markdown: MarkdownOption = None,
    html: HtmlOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the verdict on the last run of a suite, and write it for CI, a pull request or a browser.

    Nothing is run or judged again. Exit code 1: something regressed. Exit code 2: too little is known.
    """
    found = suite_at(suite)
    verdict = written(found, results or found.folder / RESULTS, junit=junit, markdown=markdown, html=html)
    if as_json:
        printing.as_json(verdict)
    else:
        print_verdict(verdict)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def baseline(suite: SuiteFolder, results: ResultsOption = None) -> None:
    """Keep the scores of a suite's last run, to compare later runs with instead of the recorded runs.

    The file has no replies of the agent. It counts once `baseline` in suite.yaml names it.
    """
    from evals.judging.suite_judging import judged_file

    found = suite_at(suite)
    name = found.settings.baseline or BASELINE
    with suite_errors():
        write_file(found.folder / name, read_file(judged_file(results or found.folder / RESULTS)))
    hint = "" if found.settings.baseline else f"; add `baseline: {name}` to suite.yaml to compare with it"
    printing.note(f"{found.folder / name} is the baseline{hint}")


def check_judging(suite: Suite) -> None:
    """Before anything is paid for. Raises SetupError where an evaluator or a threshold is none."""
    from evals.judging.evaluator_registry import evaluators_of
    from evals.verdict.verdict import thresholds_of

    with suite_errors():
        thresholds_of(suite.settings.thresholds, evaluators_of(suite.settings.evaluators))


def written(
    suite: Suite, results: Path, *, junit: Path | None, markdown: Path | None, html: Path | None
) -> "SuiteVerdict":
    """The verdict on results that were judged, written to these files. Raises SetupError."""
    from evals.judging.suite_judging import ResultFile
    from evals.reports import html_report, junit_report, markdown_report
    from evals.reports.worst_cases import worst_cases
    from evals.verdict.suite_verdict import verdict_on

    name = suite.folder.resolve().name
    with suite_errors():
        cases, found = verdict_on(suite, results)
        worst = worst_cases(found, ResultFile(results).of, html_report.WORST) if markdown or html else []
        if junit is not None:
            write_file(junit, junit_report.junit(found, cases, name))
        if markdown is not None:
            write_file(markdown, markdown_report.markdown(found, worst, name).encode())
        if html is not None:
            write_file(html, html_report.html_page(found, worst, name).encode())
    return found


def print_verdict(found: "SuiteVerdict") -> None:
    from evals.reports import markdown_report

    printing.table(
        ("EVALUATOR", "CASES", "NUMBER", "BEFORE", "AFTER", "DIFFERENCE", "95 %", ""),
        [_row(each) for each in markdown_report.shown_comparisons(found.comparisons)],
    )
    for each in found.failures:
        printing.note(f"{each.evaluator} judged {each.cases:,} cases not: {each.detail}")
    for agreed in found.agreements:
        printing.note(f"{agreed.evaluator} {agreed.described}")
    printing.note(markdown_report.counted(found))
    for reason in found.reasons:
        printing.note(reason)
    printing.note(_ends(found))


def _row(each: "ScoreComparison") -> Sequence[object]:
    found = each.found
    return (
        each.evaluator,
        each.where,
        found.count,
        f"{found.before:.1%}",
        f"{found.after:.1%}",
        f"{found.difference:+.1%}",
        f"{found.low:+.1%} to {found.high:+.1%}",
        _STATES.get(each.state, each.state),
    )


def _ends(found: "SuiteVerdict") -> str:
    match found.exit_code:
        case 0:
            return "no regression"
        case 1:
            worst = f", such as {found.changes[0].case_id}" if found.changes else ""
            return f"regression; {counted(len(found.changes), 'case')} got worse{worst}"
        case 2:
            return "no verdict: too little is known"
