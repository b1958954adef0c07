"""Names that people give: kept on one line."""

from contracts.text import is_line
from directory.errors import Invalid

MOST = 200


def one_line(name: str, *, least: int = 1) -> str:
    """The name with its white space evened out, `least` to 200 characters of it. Raises Invalid."""
    name = " ".join(name.split())
    if not least <= len(name) <= MOST:
        raise Invalid("name", f"must have {least} to {MOST} characters")
    if not is_line(name):
        raise Invalid("name", "holds control characters or lone surrogates")
    return name
