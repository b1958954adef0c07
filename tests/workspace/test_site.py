"""`make site`: the documentation is built without a broken link, and loads nothing from another host."""

import re
from pathlib import Path

import pytest

from tests import installed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
_LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


async def test_the_site_is_built_and_loads_nothing_from_another_host(tmp_path: Path) -> None:
    python = Path(await installed.python_locked(ROOT / "docs"))
    site = tmp_path / "site"
    mkdocs = (str(python.with_name("mkdocs")), "build", "--strict", "--site-dir", str(site))
    await installed.run(ROOT, *mkdocs, NO_MKDOCS_2_WARNING="1")
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    assert {
        "index.html",
        "integrate/api.html",
        "operate/production.html",
        "change/design.html",
    } <= pages.keys()
    assert {name: found for name, text in pages.items() if (found := _LOADED.findall(text))} == {}
    assert all("default-src 'self'" in text for text in pages.values())
