"""Tables on terminals of any width."""

import pytest
from rich.cells import cell_len

from ops.admin.show import cell
from ops.admin.table import GAP, fitted, line

_HEADINGS = ["ID", "NAME", "MODEL", "CREATED"]
_ROW = ["0" * 36, "n" * 60, "日本" * 20, "2026-11-21 10:00:00Z"]


@pytest.mark.requirement("ADMIN-CLI")
def test_a_line_fits_and_no_id_is_cut() -> None:
    whole = sum(map(cell_len, _ROW)) + 3 * GAP
    for room in range(20, 240):
        widths = fitted(_HEADINGS, [_ROW], room)
        assert widths[0] == 36
        assert cell_len(line(_ROW, widths)) <= max(room, 36)
        assert len(widths) == 1 or sum(widths) + GAP * (len(widths) - 1) <= room
        assert (widths == [36, 60, 80, 20]) == (room >= whole)


@pytest.mark.requirement("ADMIN-CLI")
def test_what_is_read_by_a_program_is_whole() -> None:
    assert line(_ROW, fitted(_HEADINGS, [_ROW], None)).split() == _ROW[:3] + _ROW[3].split()
    assert line(["a", "b"], [3, 1]) == "a    b"
    assert line(["abcdef", "b"], [3, 1]) == "ab…  b"


@pytest.mark.requirement("ADMIN-CLI")
def test_cells_drive_no_terminal() -> None:
    assert cell("a\x1b[2J\nb") == "a␛[2J b"
    assert cell({"a": "\x9b"}) == '{"a": "\ufffd"}'
    assert (cell(None), cell(True), cell(12345)) == ("-", "yes", "12,345")
