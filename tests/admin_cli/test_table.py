"""Tables on terminals of any width."""

import pytest
from rich.cells import cell_len
from rich.console import Console

from ops.admin.show import cell, laid_out

_HEADINGS = ["ID", "NAME", "MODEL", "CREATED"]
_ROW = ["0" * 36, "n" * 60, "日本" * 20, "2026-11-21 10:00:00Z"]


def _lines(width: int) -> list[str]:
    screen = Console(width=width, force_terminal=True, color_system=None)
    with screen.capture() as captured:
        screen.print(laid_out(_HEADINGS, [_ROW]))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.requirement("ADMIN-CLI")
def test_a_line_fits_and_no_id_is_cut() -> None:
    for width in range(60, 240):
        _, first, *rest = lines = _lines(width)
        assert first.startswith(f"{_ROW[0]}  ")
        assert max(map(cell_len, lines)) <= width
        for text in _ROW:
            assert set(text) <= set("".join([first, *rest])), "nothing is left out"


@pytest.mark.requirement("ADMIN-CLI")
def test_what_is_read_by_a_program_is_whole() -> None:
    heading, line = _lines(10_000)
    assert heading.split() == _HEADINGS
    assert line.split() == _ROW[:3] + _ROW[3].split()


@pytest.mark.requirement("ADMIN-CLI")
def test_cells_drive_no_terminal() -> None:
    assert cell("a\x1b[2J\nb") == "a␛[2J b"
    assert cell({"a": "\x9b"}) == '{"a": "\ufffd"}'
    assert cell(None) == "-"
    assert cell(True) == "yes"
    assert cell(12345) == "12,345"
