"""A bar on a terminal, for what takes long."""

from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ops.admin import show
from ops.chat.safe import one_line


def progress(verb: str) -> Progress:
    """Drawn on a terminal only."""
    console = show.console(stderr=True)
    return Progress(
        TextColumn(verb),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def warn(bar: Progress, text: str) -> None:
    """Above the bar where there is one."""
    line: Any = f"agentchat: {one_line(text, 1000)}"
    bar.console.print(line, soft_wrap=True)
