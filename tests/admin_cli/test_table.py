"""Tables on terminals of any width, and where there is none."""

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from administration.admin_canary import CanaryComparison
from administration.canary_comparison import Decision
from administration.routes import BY_NAME
from ops.admin.admin_commands import GROUPS
from ops.admin.printed_answers import show_answer
from ops.printing import cell, laid_out
from tests.admin_cli.tables import COMPARED, GOLDEN, LISTED, TABLES, drawn, golden

_HEADINGS = ["ID", "NAME", "MODEL", "CREATED"]
_ROW = ["0" * 36, "n" * 60, "日本" * 20, "2026-11-21 10:00:00Z"]


def _lines(width: int) -> list[str]:
    screen = Console(width=width, force_terminal=True, color_system=None)
    with screen.capture() as captured:
        screen.print(laid_out(_HEADINGS, [_ROW], width))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_line_fits_and_no_id_is_cut() -> None:
    for width in range(60, 240):
        lines = _lines(width)
        assert max(map(cell_len, lines)) <= width
        assert any(_ROW[0] in line for line in lines)
        for text in _ROW:
            assert set(text) <= set("".join(lines)), "nothing is left out"


def test_a_row_that_does_not_fit_is_a_block_of_fields() -> None:
    assert [line.split()[0] for line in _lines(100)[:2]] == ["ID", "NAME"]
    assert _lines(110)[0].split() == _HEADINGS


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_laid_out_as_its_golden_file_has_it(name: str) -> None:
    assert golden(name) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", TABLES)
def test_no_table_is_wider_than_its_terminal(name: str, width: int) -> None:
    assert max(map(cell_len, drawn(name, width).splitlines())) <= width


def test_every_golden_file_is_of_a_table() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(TABLES)


def test_every_list_that_a_command_prints_has_a_golden_file() -> None:
    called = [BY_NAME[command.route] for group in GROUPS.values() for command in group.commands.values()]
    lists = {route.gives: route.name for route in called if route.many != "one"}
    assert len(lists) > 10
    assert [name for kind, name in lists.items() if kind not in LISTED] == []


def test_without_a_terminal_a_long_text_ends_in_an_ellipsis() -> None:
    line = drawn("accounts", None).splitlines()[1]
    assert line.split("  ")[1].endswith("…")
    assert len(line) < 200


def test_cells_drive_no_terminal() -> None:
    assert cell("a\x1b[2J\nb") == "a␛[2J b"
    assert cell({"a": "\x9b"}) == '{"a": "\ufffd"}'
    assert cell(None) == "-"
    assert cell(True) == "yes"
    assert cell(12345) == "12,345"


@pytest.mark.parametrize(
    ("decision", "more", "code", "step"),
    [
        ("better", None, 0, "to let it answer all conversations: agentchat admin agents promote {agent} 13"),
        ("same", None, 0, "to let it answer all conversations: agentchat admin agents promote {agent} 13"),
        ("worse", None, 1, "to go back: agentchat admin agents promote {agent} 12"),
        ("undecided", 1_300, 2, "some 1,300 more conversations of version 13 would decide it"),
        ("undecided", None, 2, "version 13 against 12: undecided"),
    ],
)
def test_a_comparison_ends_with_what_to_do_and_its_exit_code(
    decision: Decision, more: int | None, code: int, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = replace(COMPARED, decision=decision, more=more)
    assert show_answer(CanaryComparison, found, json_too=False) == code
    assert capsys.readouterr().err.splitlines()[-1] == f"agentchat: {step.format(agent=found.agent_id)}"
