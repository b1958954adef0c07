"""Options that several commands have."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Most = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many; all of them if unset.")]
Force = Annotated[bool, typer.Option("--force", help="Delete what would be orphaned too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would go; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first, on a terminal either.")]


def group(about: str) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(
        help=about, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )


def given(**fields: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in fields.items() if value is not None}


def number_or_none(text: str | None, parse: Callable[[str], Any] = int) -> Any:
    """A number, or `none` for no limit. Raises typer.BadParameter."""
    if text is None or text.strip().lower() == "none":
        return None
    try:
        return parse(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a whole number nor `none`") from None
