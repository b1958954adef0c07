"""The page on agents has a row for every field of an agent."""

import re
from pathlib import Path

from directory.agent_draft import AgentDraft

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "agents.md"


def test_every_field_has_its_row() -> None:
    (table,) = re.findall(r"^\| field \| meaning \|\n(.+?)\n\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    cells = [row.split("|")[1] for row in table.splitlines()[1:]]
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(AgentDraft.__struct_fields__)
