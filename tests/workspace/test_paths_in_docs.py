"""The paths of modules and folders that the documentation names are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("[!d]*/*.md"))]
_PATH = re.compile(r"`((?:[a-z_-]+/)+(?:[a-z_-]+(?:\.py)?)?)`")
_TOP = tuple(
    f"{place.name}/" for place in [*ROOT.glob("*/"), *ROOT.glob("*/*/src/agentchat/*/")] if place.is_dir()
)


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_a_path_in_the_docs_is_there(page: Path) -> None:
    named = {path for path in _PATH.findall(page.read_text()) if path.startswith(_TOP)}
    missing = [path for path in sorted(named) if not _is_there(path)]
    assert missing == []


def _is_there(path: str) -> bool:
    """From the top of the repository, or from the folder that holds a package."""
    return any((place / path).exists() for place in (ROOT, *ROOT.glob("*/*/src/agentchat")))
