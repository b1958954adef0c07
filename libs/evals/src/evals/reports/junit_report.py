"""A verdict as JUnit XML: what CI servers show of tests. A case is a test, and so is each comparison."""

import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET

from evals.judging.judged_cases import JudgedCase
from evals.verdict.comparisons import ScoreComparison
from evals.verdict.verdict import CaseChange, SuiteVerdict, outcome_of

_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_UNKNOWN = ("not_run", "damaged")


def junit(verdict: SuiteVerdict, cases: Iterable[JudgedCase], name: str) -> bytes:
    """A case fails only where it is lost by an evaluator that found the suite worse: what a single case does
    is no verdict. Erased cases are skipped; nothing is known of what was not run or is damaged.
    """
    changes = {each.case_id: each for each in verdict.changes}
    tests = [
        *map(_compared, verdict.comparisons),
        *(_case(each, changes.get(each.case_id)) for each in cases),
    ]
    attributes = {"name": _text(name), "tests": str(len(tests))}
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        attributes[attribute] = str(sum(each.find(kind) is not None for each in tests))
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", attributes)
    suite.extend(tests)
    ET.SubElement(suite, "system-out").text = _text("\n".join(verdict.reasons))
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _compared(comparison: ScoreComparison) -> ET.Element:
    found = comparison.found
    test = _test("verdict", f"{comparison.evaluator}, {comparison.where}")
    line = (
        f"{found.before:.1%} -> {found.after:.1%} of {found.count:,} cases, "
        f"95 % interval {found.low:+.1%} to {found.high:+.1%}"
    )
    if comparison.state == "regressed":
        ET.SubElement(test, "failure", {"message": line, "type": "regression"})
    elif comparison.state == "too_small":
        ET.SubElement(test, "skipped", {"message": f"too few cases to tell: {line}"})
    else:
        ET.SubElement(test, "system-out").text = line
    return test


def _case(case: JudgedCase, change: CaseChange | None) -> ET.Element:
    test = _test("cases", case.case_id)
    outcome = outcome_of(case)
    reasons = "\n".join(() if change is None else change.reasons)
    if outcome in _UNKNOWN:
        detail = next((each.detail for each in case.again if each.detail), outcome)
        ET.SubElement(test, "error", {"message": _text(detail), "type": outcome})
    elif outcome == "erased":
        ET.SubElement(test, "skipped", {"message": "its conversation was deleted"})
    elif change is not None and change.lost:
        message = _text(", ".join(change.evaluators))
        ET.SubElement(test, "failure", {"message": message, "type": "regression"}).text = _text(reasons)
    elif reasons:
        ET.SubElement(test, "system-out").text = _text(reasons)
    return test


def _test(class_name: str, name: str) -> ET.Element:
    return ET.Element("testcase", {"classname": class_name, "name": _text(name)})


def _text(text: str) -> str:
    """Without what no XML document may hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
