"""Reports of a verdict: what they say, and that no text of a case is markup in any of them."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

from markdown_it import MarkdownIt

from evals.judging.evaluator_registry import evaluators_of
from evals.judging.judged_cases import JudgedCase
from evals.reports.html_report import html_page
from evals.reports.junit_report import junit
from evals.reports.markdown_report import markdown
from evals.reports.worst_cases import WorstCase, worst_cases
from evals.results import CaseResult
from evals.verdict.verdict import SuiteVerdict, thresholds_of, verdict
from tests.evals.done_again import call, case, judged, result

_HOSTILE = (
    "</details><script>alert(1)</script> ````` ```\n# Title\n@everyone ![x](https://evil.example/x.png) "
    "<img src=x onerror=alert(1)> | a | b |\n]]></system-out> &lt; \x00\x1b[2J\ufffe {{ 7*7 }}"
)
_EVALUATOR = {"name": "equal"}

Reported = tuple[SuiteVerdict, list[JudgedCase], list[WorstCase]]


async def _reported(*, lost: int, after: str = _HOSTILE, unknown: int = 0) -> Reported:
    """Of 40 cases, of which so many are lost."""
    done = []
    results: dict[str, CaseResult] = {}
    for number in range(40):
        name = f"c{number:02}"
        calls = [call("find", q=_HOSTILE)]
        if number < lost:
            results[name] = result(name, after, f"Before {after}", calls=calls, recorded_calls=[])
        else:
            outcome = "not_run" if number < lost + unknown else "completed"
            results[name] = result(name, outcome=outcome)  # type: ignore[arg-type]  # one of two
        done.append((case(name, slices={"language": after if number < 20 else "en"}), (results[name],)))
    cases = await judged(done, _EVALUATOR)
    found = verdict(thresholds_of({}, evaluators_of([_EVALUATOR])), cases)
    return found, cases, worst_cases(found, lambda case_id: (results[case_id],), 100)


async def test_junit_is_xml_that_names_what_is_worse_lost_and_not_known() -> None:
    found, cases, _ = await _reported(lost=20, unknown=2)
    suite = ET.fromstring(junit(found, cases, "shop"))[0]
    assert suite.attrib["name"] == "shop"
    assert suite.attrib["tests"] == str(len(suite.findall("testcase")))
    by_kind = {
        kind: [each.attrib["name"] for each in suite.findall("testcase") if each.find(kind) is not None]
        for kind in ("failure", "error")
    }
    assert "equal, all cases" in by_kind["failure"]
    assert [each for each in by_kind["failure"] if each.startswith("c")] == [f"c{n:02}" for n in range(20)]
    assert by_kind["error"] == ["c20", "c21"]
    assert suite.attrib["failures"] == str(len(by_kind["failure"]))


async def test_a_case_that_got_worse_fails_no_build_where_the_suite_did_not() -> None:
    found, cases, _ = await _reported(lost=1)
    assert found.exit_code == 0
    suite = ET.fromstring(junit(found, cases, "shop"))[0]
    assert suite.attrib["failures"] == "0"
    assert suite.find("testcase[@name='c00']/system-out") is not None


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def _tags(page: str) -> _Tags:
    found = _Tags()
    found.feed(page)
    return found


async def test_no_hostile_text_is_markup_in_the_page() -> None:
    (found, _, worst), (_, _, harmless) = await _reported(lost=20), await _reported(lost=20, after="x")
    page = html_page(found, worst, _HOSTILE)
    assert _tags(page).tags == _tags(html_page(found, harmless, "shop")).tags
    assert _tags(page).attributes <= {"charset", "class", "content", "http-equiv", "lang", "name", "open"}
    assert "script" not in _tags(page).tags
    assert "{{ 7*7 }}" in page
    assert page.count("<del>") >= 20
    assert "default-src 'none'" in page


async def test_no_hostile_text_is_markup_in_a_pull_request() -> None:
    found, _, worst = await _reported(lost=20)
    text = markdown(found, worst, _HOSTILE)
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert _tags(page).tags <= {
        *("h2", "ul", "li", "p", "code", "pre", "details", "summary"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert page.count("<details>") == page.count("</details>") == 5
    assert "@everyone" not in re.sub(r"<code.*?</code>", "", page, flags=re.DOTALL)
    assert len(text) < 65_536


async def test_the_pull_request_says_why_and_shows_the_worst_cases() -> None:
    found, _, worst = await _reported(lost=20, after="Gone.", unknown=2)
    text = markdown(found, worst, "shop")
    assert text.startswith("## ❌ Regression: `shop`")
    assert "`equal fell from 100.0% to 47.4% in all cases (38)" in text
    assert "40 cases against the recorded runs: 38 completed, 2 not run." in text
    assert "-Before Gone." in text
    assert "+Gone." in text
    nothing, _, none = await _reported(lost=0)
    assert markdown(nothing, none, "shop").startswith("## ✅ No regression: `shop`")
