"""The workflows of CI: their form, and that they call targets of the Makefile."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.deploy.container_settings import ROOT

FILES = sorted((ROOT / ".github/workflows").glob("*.yaml"))
SCHEMA = json.loads(Path(__file__).with_name("workflow_schema.json").read_text())
TARGETS = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))


def _read(file: Path) -> dict[str, Any]:
    """Return the workflow; YAML 1.1 reads the key `on` as true."""
    read: dict[Any, Any] = yaml.safe_load(file.read_text())
    return {"on" if key is True else key: value for key, value in read.items()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_workflow_fits_the_schema(file: Path) -> None:
    jsonschema.validate(_read(file), SCHEMA)


def test_workflows_call_the_targets_that_pages_promise() -> None:
    texts = {file.stem: file.read_text() for file in FILES}
    assert set(re.findall(r"make ([a-z-]+)", texts["ci"])) == {"check", "test"}
    nightly = set(
        _read(ROOT / ".github/workflows/nightly.yaml")["jobs"]["nightly"]["strategy"]["matrix"]["target"]
    )
    assert nightly >= {"chaos", "step-matrix", "simulate", "fuzz", "browser", "test-slow", "image"}
    assert nightly <= TARGETS
