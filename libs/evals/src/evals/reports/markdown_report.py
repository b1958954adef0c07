"""A verdict as a comment on a pull request: short, with the worst cases folded."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from evals.reports.worst_cases import WorstCase
from evals.verdict.comparisons import ScoreComparison
from evals.verdict.verdict import SuiteVerdict
from experiments.text_diff import unified

WORST = 5
_MOST_CHARACTERS = 60_000
"""A comment of GitHub has 65,536 at most."""
_MOST_OF_CASE = 4_000
_MOST_ROWS = 20
_TITLES = {0: "✅ No regression", 1: "❌ Regression", 2: "⚠️ No verdict"}
_STATES = {"regressed": "❌ worse", "improved": "better", "same": "", "too_small": "too few cases to tell"}


def markdown(verdict: SuiteVerdict, worst: Sequence[WorstCase], name: str) -> str:
    """Foreign texts are in code, whose fence is longer than any in them."""
    parts = [
        f"## {_TITLES[verdict.exit_code]}: {_code(name)}",
        "\n".join(f"- {_code(each)}" for each in verdict.reasons[:_MOST_ROWS]),
        counted(verdict),
        "\n".join(_table(verdict.comparisons)),
        "\n".join(_agreements(verdict)),
    ]
    text = "\n\n".join(filter(None, parts)) + "\n"
    for each in worst[:WORST]:
        folded = _folded(each)
        if len(text) + len(folded) <= _MOST_CHARACTERS:
            text += f"\n{folded}"
    return text


def counted(verdict: SuiteVerdict) -> str:
    """`200 cases against the recorded runs: 198 completed, 2 diverged; …`"""
    counts = verdict.counts
    names = ("completed", "failed", "diverged", "not_run", "damaged", "erased")
    apart = ("could_not_judge", "not_judged", "raised", "flaky", "new")
    groups = [
        ", ".join(
            f"{number:,} {name.replace('_', ' ')}" for name in group if (number := getattr(counts, name))
        )
        for group in (names, apart)
    ]
    against = "the recorded runs" if verdict.against == "recorded" else "the baseline"
    found = "; ".join(filter(None, groups)) or "nothing was run"
    return f"{counts.cases:,} cases against {against}: {found}."


def shown_comparisons(comparisons: Iterable[ScoreComparison]) -> list[ScoreComparison]:
    """All over the whole suite, and of the slices those that are worse, or too small and lower."""
    return [
        each
        for each in comparisons
        if not each.dimension
        or each.state == "regressed"
        or (each.state == "too_small" and each.found.difference < -each.tolerated)
    ]


def _table(comparisons: Iterable[ScoreComparison]) -> Iterator[str]:
    rows = shown_comparisons(comparisons)
    if not rows:
        return
    yield "| evaluator | cases | before | after | difference (95 %) | |"
    yield "|---|---|---|---|---|---|"
    for each in rows[:_MOST_ROWS]:
        found = each.found
        yield (
            f"| {_code(each.evaluator)} | {_code(each.where)} ({found.count:,}) | {found.before:.1%} "
            f"| {found.after:.1%} | {found.difference:+.1%} ({found.low:+.1%} to {found.high:+.1%}) "
            f"| {_STATES[each.state]} |"
        )
    if len(rows) > _MOST_ROWS:
        yield f"\n… and {len(rows) - _MOST_ROWS:,} comparisons more."


def _agreements(verdict: SuiteVerdict) -> Iterator[str]:
    for each in verdict.agreements:
        yield f"{_code(each.evaluator)} {each.described}."


def _folded(worst: WorstCase) -> str:
    change = worst.change
    difference = "" if worst.compared is None else unified(worst.compared.before, worst.compared.after)
    lines = [*change.reasons, "", *difference.splitlines()]
    if worst.compared is not None:
        lines.insert(0, f"message: {' '.join(worst.compared.message.split())}")
    flaky = ", flips by itself" if change.flaky else ""
    named = f"{change.case_id}: {', '.join(change.evaluators)}{flaky}"
    text = _fenced("\n".join(lines)[:_MOST_OF_CASE])
    return f"<details><summary><code>{_escaped(named)}</code></summary>\n\n{text}\n\n</details>\n"


def _fenced(text: str) -> str:
    longest = max((len(each) for each in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}diff\n{text}\n{fence}"


def _code(text: str) -> str:
    """A foreign text within a line, and within a cell of a table."""
    bare = " ".join(text.split()).replace("`", "'").replace("|", "/")
    return f"`{bare}`" if bare else "—"


def _escaped(text: str) -> str:
    return html.escape(" ".join(text.split())[:200])
