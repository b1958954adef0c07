"""The table of tested clients has the versions that the tests install."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SYSTEM = ROOT / "tests/system"
_LOCKED = {
    "openai": ROOT / "requirements.lock",
    "standardwebhooks": ROOT / "requirements.lock",
    "openapi-python-client": _SYSTEM / "generated_clients/requirements.lock",
    "langchain-openai": _SYSTEM / "test_foreign_clients.py",
}


def test_the_table_of_clients_has_the_versions_that_are_tested() -> None:
    packages = [json.loads(each.read_text())["dependencies"] for each in _SYSTEM.glob("*/package.json")]
    tested = {version.rpartition("@")[2] for each in packages for version in each.values()}
    for name, file in _LOCKED.items():
        tested |= set(re.findall(rf"\b{name}==([\d.]+)", file.read_text()))
    assert len(tested) > len(_LOCKED)
    page = (ROOT / "docs/integrate/clients.md").read_text()
    assert tested - set(re.findall(r"\d+(?:\.\d+)+", page)) == set()
