"""Tables on terminals of any width, and where there is none."""

import pytest
from rich.cells import cell_len
from rich.console import Console

from agentchat.ops.printing import format_cell, lay_out, print_rows

_HEADINGS = ["ID", "NAME", "MODEL", "CREATED"]
_ROW = ["0" * 36, "n" * 60, "日本" * 20, "2026-11-21 10:00:00Z"]


def test_a_line_fits_and_no_id_is_cut() -> None:
    assert lay_out(_HEADINGS, [_ROW], 100) is None, "a block of fields fits"
    for width in range(110, 240):
        screen = Console(width=width, force_terminal=True, color_system=None)
        with screen.capture() as captured:
            screen.print(lay_out(_HEADINGS, [_ROW], width))
        lines = [line.rstrip() for line in captured.get().splitlines()]
        assert lines[0].split() == _HEADINGS
        assert max(map(cell_len, lines)) <= width
        assert any(_ROW[0] in line for line in lines)
        for text in _ROW:
            assert set(text) <= set("".join(lines)), "nothing is left out"


def test_rows_are_the_fields_with_plain_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(
        [
            {"id": "1", "name": "n" * 200, "tags": {}},
            {"id": "2", "at": None, "read_at": "2026-11-21T10:00:00Z"},
        ]
    )
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["ID", "NAME", "READ"]
    assert first.split()[1].endswith("…"), "without a terminal a long text is cut"
    assert second.split() == ["2", "-", "2026-11-21", "10:00:00Z"]


def test_cells_drive_no_terminal() -> None:
    assert format_cell("a\x1b[2J\nb") == "a␛[2J b"
    assert format_cell({"a": "\x9b"}) == '{"a": "\ufffd"}'
    assert format_cell(None) == "-"
    assert format_cell(True) == "yes"
    assert format_cell(12345) == "12,345"
