"""`agentchat eval report` and `baseline`: a run's verdict printed and written, and kept to compare with."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.suite import Suite, read_file, write_file
from ops import printing
from ops.admin.options import AsJson
from ops.errors import SetupError
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
    """Print the verdict on the last run.

    It can be written for CI, a pull request or a browser too.
    Nothing is run or judged again. Exit code 1: something regressed. Exit code 2: too little is known.
    """
    found = suite_at(suite)
    verdict = written(found, _results(found, results), junit=junit, markdown=markdown, html=html)
    if as_json:
        printing.as_json(verdict)
    else:
        print_verdict(verdict)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def baseline(suite: SuiteFolder, results: ResultsOption = None) -> None:
    """Keep the last run's scores as the baseline.

    Later runs are compared with it instead of the recorded runs, once `baseline` in suite.yaml names it. The
    file has no replies of the agent.
    """
    from evals.judging.suite_judging import judged_file

    found = suite_at(suite)
    name, judged = found.settings.baseline or BASELINE, judged_file(_results(found, results))
    with suite_errors():
        write_file(found.folder / name, read_file(judged))
    hint = "" if found.settings.baseline else f"; add `baseline: {name}` to suite.yaml to compare with it"
    printing.note(f"{found.folder / name} is the baseline{hint}")


def _results(suite: Suite, given: Path | None) -> Path:
    """Of the suite's last run, if none are given. Raises SetupError where there are none."""
    found = given or suite.folder / RESULTS
    if not found.is_file():
        raise SetupError(f"{found} does not exist: `agentchat eval run` writes it")
    return found


def check_judging(suite: Suite) -> None:
    """Before anything is paid for. Raises SetupError where an evaluator or a threshold is none, or where the
    baseline is missing.
    """
    from evals.judging.evaluator_registry import evaluators_of
    from evals.verdict.verdict import thresholds_of

    name = suite.settings.baseline
    if name is not None and not (suite.folder / name).is_file():
        raise SetupError(
            f"suite.yaml: baseline: {suite.folder} has no {name}; run the suite without the line, and keep"
            " that run by `agentchat eval baseline`"
        )
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
