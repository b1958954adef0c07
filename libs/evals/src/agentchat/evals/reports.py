"""A verdict for its readers: JUnit XML for CI, Markdown for a pull request.

Whatever a case holds was written by others: none of it is markup in either of them.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from agentchat.evals.case_results import CaseResult
from agentchat.evals.compared_run import ComparedRun
from agentchat.evals.text_diff import diff_runs
from agentchat.evals.verdict import CaseChange, Comparison, SuiteVerdict

_WORST = 5
_MOST_CHARACTERS = 60_000
"""A comment of GitHub has 65,536 at most."""
_MOST_OF_CASE = 4_000
_MOST_ROWS = 20
_TITLES = {0: "✅ No regression", 1: "❌ Regression", 2: "⚠️ No verdict"}
_STATES = {"worse": "❌ worse", "better": "better", "too_few": "too few cases to tell"}
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_markdown(verdict: SuiteVerdict, results: Sequence[CaseResult], name: str) -> str:
    """Write a comment on a pull request. Foreign texts are in code blocks."""
    parts = [
        f"## {_TITLES[verdict.exit_code]}: {_quote_code(name)}",
        "\n".join(f"- {_quote_code(each)}" for each in verdict.reasons[:_MOST_ROWS]),
        f"{verdict.counted}.",
        "\n".join(_render_table(verdict.shown)),
        "\n".join(f"- {_quote_code(each)}" for each in verdict.failures[:_MOST_ROWS]),
    ]
    text = "\n\n".join(filter(None, parts)) + "\n"
    compared = {each.case_id: each.compared for each in results}
    for change in verdict.changes[:_WORST]:
        folded = _render_details(change, compared.get(change.case_id))
        if len(text) + len(folded) <= _MOST_CHARACTERS:
            text += f"\n{folded}"
    return text


def render_junit(verdict: SuiteVerdict, results: Iterable[CaseResult], name: str) -> bytes:
    """Return JUnit XML: each case is a test, and so is each comparison.

    A case fails only if it is worse by an evaluator that found the suite worse: a single case is no verdict.
    Erased cases are skipped; cases that were not run are errors.
    """
    changes = {each.case_id: each for each in verdict.changes}
    tests = [
        *map(_build_comparison_test, verdict.comparisons),
        *(_build_case_test(each, changes) for each in results),
    ]
    attributes = {"name": _clean_xml(name), "tests": str(len(tests))}
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        attributes[attribute] = str(sum(each.find(kind) is not None for each in tests))
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", attributes)
    suite.extend(tests)
    ET.SubElement(suite, "system-out").text = _clean_xml("\n".join(verdict.reasons))
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _render_table(comparisons: Sequence[Comparison]) -> Iterator[str]:
    if not comparisons:
        return
    yield "| evaluator | cases | before | after | difference (95 %) | |"
    yield "|---|---|---|---|---|---|"
    for each in comparisons[:_MOST_ROWS]:
        found, interval = each.found, f" ({each.interval})" if each.interval else ""
        yield (
            f"| {_quote_code(each.evaluator)} | {_quote_code(each.where)} ({found.count:,}) "
            f"| {found.before:.1%} | {found.after:.1%} | {found.value:+.1%}{interval} "
            f"| {_STATES.get(each.state, '')} |"
        )
    if len(comparisons) > _MOST_ROWS:
        yield f"\n… and {len(comparisons) - _MOST_ROWS:,} comparisons more."


def _render_details(change: CaseChange, compared: ComparedRun | None) -> str:
    lines = [*change.reasons, ""]
    if compared is not None:
        difference = diff_runs(compared.before, compared.after).splitlines()
        lines = [f"message: {' '.join(compared.message.split())}", *lines, *difference]
    named = f"{change.case_id}: {', '.join(change.evaluators)}"
    text = _fence("\n".join(lines)[:_MOST_OF_CASE])
    return f"<details><summary><code>{html.escape(named[:200])}</code></summary>\n\n{text}\n\n</details>\n"


def _fence(text: str) -> str:
    longest = max((len(each) for each in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}diff\n{text}\n{fence}"


def _quote_code(text: str) -> str:
    """Return untrusted text as code within a line or a cell of a table."""
    bare = " ".join(text.split()).replace("`", "'").replace("|", "/")
    return f"`{bare}`" if bare else "—"


def _build_comparison_test(comparison: Comparison) -> ET.Element:
    found = comparison.found
    test = _build_test("verdict", f"{comparison.evaluator}, {comparison.where}")
    line = f"{found.before:.1%} -> {found.after:.1%} of {found.count:,} cases"
    if comparison.interval:
        line += f", 95 % interval {comparison.interval}"
    if comparison.state == "worse":
        ET.SubElement(test, "failure", {"message": line, "type": "regression"})
    elif comparison.state == "too_few":
        ET.SubElement(test, "skipped", {"message": f"too few cases to tell: {line}"})
    else:
        ET.SubElement(test, "system-out").text = line
    return test


def _build_case_test(result: CaseResult, changes: Mapping[str, CaseChange]) -> ET.Element:
    test, change = _build_test("cases", result.case_id), changes.get(result.case_id)
    reasons = "\n".join(() if change is None else change.reasons)
    if result.outcome == "not_run":
        ET.SubElement(test, "error", {"message": _clean_xml(result.detail), "type": result.outcome})
    elif result.outcome == "erased":
        ET.SubElement(test, "skipped", {"message": "its conversation was deleted"})
    elif change is not None and change.counts:
        message = _clean_xml(", ".join(change.evaluators))
        ET.SubElement(test, "failure", {"message": message, "type": "regression"}).text = _clean_xml(reasons)
    elif reasons:
        ET.SubElement(test, "system-out").text = _clean_xml(reasons)
    return test


def _build_test(class_name: str, name: str) -> ET.Element:
    return ET.Element("testcase", {"classname": class_name, "name": _clean_xml(name)})


def _clean_xml(text: str) -> str:
    """Replace characters that an XML document cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
