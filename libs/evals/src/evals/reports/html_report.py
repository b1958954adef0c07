"""A verdict as one HTML page that loads nothing: tables, and the worst cases side by side."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from evals.reports.markdown_report import counted, shown_comparisons
from evals.reports.worst_cases import WorstCase
from evals.verdict.verdict import SuiteVerdict
from experiments.text_diff import CallPair, Piece, call_pairs, word_diff

if TYPE_CHECKING:
    from jinja2 import Template

WORST = 100
_TITLES = {0: "No regression", 1: "Regression", 2: "No verdict"}


def html_page(verdict: SuiteVerdict, worst: Sequence[WorstCase], name: str) -> str:
    return _template().render(
        name=name,
        title=_TITLES[verdict.exit_code],
        verdict=verdict,
        counted=counted(verdict),
        comparisons=shown_comparisons(verdict.comparisons),
        hidden=len(verdict.comparisons) - len(shown_comparisons(verdict.comparisons)),
        cases=[(each, _pieces(each), _calls(each)) for each in worst[:WORST]],
        left_out=max(0, len(verdict.changes) - len(worst[:WORST])),
    )


def _pieces(worst: WorstCase) -> list[Piece]:
    compared = worst.compared
    return [] if compared is None else word_diff(compared.before.content, compared.after.content)


def _calls(worst: WorstCase) -> list[CallPair]:
    compared = worst.compared
    return [] if compared is None else call_pairs(compared.before.calls, compared.after.calls)


@cache
def _template() -> "Template":
    # Imported here: only this page needs it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from experiments.comparison import call_line

    environment = Environment(
        loader=PackageLoader("evals", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["call_line"] = call_line
    return environment.get_template("report.html")
