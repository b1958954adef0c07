"""What code, tests and pages cite of docs/ is there: files, sections, anchors."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.requirement("LAYOUT")

ROOT = Path(__file__).parents[2]
TREES = ("libs", "services", "tests", "docs", "deploy", "examples")
CITING = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml")),
    *(
        path
        for tree in TREES
        for path in sorted((ROOT / tree).rglob("*"))
        if path.suffix in {".py", ".md", ".toml", ".ts", ".sh"} and "node_modules" not in path.parts
    ),
]
PAGES = {path: path.read_text() for path in CITING if path.suffix == ".md"}


def _headings(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


def _is_in(page: Path, section: str) -> bool:
    """Whether a page has that section: by its number (`## 6. …`) or its whole name (`### NATS`)."""
    return page in PAGES and any(
        heading == section or heading.startswith(f"{section}. ") for heading in _headings(page)
    )


def _anchors(page: Path) -> set[str]:
    """The anchors of a page, made of its headings as GitHub does."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _headings(page)}


def _cited() -> Iterator[tuple[str, Path, str]]:
    """Who cites (as `docs/change/design.md 5`, or a requirement's source), the page and the section."""
    for path in CITING:
        for page, section in re.findall(r"docs/([\w/-]+\.md)(?: +|\n *)(\d+|[A-Z]\w*)\b", path.read_text()):
            yield str(path.relative_to(ROOT)), ROOT / "docs" / page, section
    for name, source in tomllib.loads((ROOT / "tests" / "requirements.toml").read_text()).items():
        for each in source.split("; "):
            page, _, section = each.partition(" ")
            yield name, ROOT / "docs" / "change" / f"{page}.md", section


def _links() -> Iterator[tuple[Path, str, str]]:
    """Each link of a page to another or to itself: the page, the file, the anchor."""
    for path, text in PAGES.items():
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
            file, _, anchor = target.partition("#")
            yield path, file, anchor


def test_every_cited_section_is_there() -> None:
    cited = list(_cited())
    assert any(who.endswith(".py") for who, _, _ in cited)
    assert [(who, page.name, section) for who, page, section in cited if not _is_in(page, section)] == []


def test_every_cited_decision_is_there_once_and_in_the_index() -> None:
    pages = "\n".join(PAGES[page] for page in (ROOT / "docs" / "decisions").glob("*.md"))
    decisions = re.findall(r"^#+ 0*(\d+)[.:] ", pages, re.MULTILINE)
    assert len(decisions) == len(set(decisions))
    index = re.findall(r"^\| (\d+) \| \[", PAGES[ROOT / "docs" / "decisions" / "README.md"], re.MULTILINE)
    assert set(re.findall(r"^## (\d+)\. ", pages, re.MULTILINE)) == set(index)
    cited = {
        number
        for path in CITING
        for first, second in re.findall(r"\b[Dd]ecisions? \[?(\d+)(?: and (\d+))?", path.read_text())
        for number in (first, second)
        if number
    }
    assert cited - set(decisions) == set()


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken = []
    for path, file, anchor in _links():
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(f"{path.relative_to(ROOT)}: {file}#{anchor}")
    assert broken == []


def test_nothing_is_cited_that_only_its_authors_have() -> None:
    pattern = re.compile(r"\b(DESIGN|RELIABILITY|FACTS)\b[. ]|\bissue \d")
    found = {
        str(path.relative_to(ROOT))
        for path in CITING
        if path != Path(__file__) and pattern.search(path.read_text())
    }
    assert found == set()
