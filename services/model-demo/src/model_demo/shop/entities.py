"""What stands out of a text: ids such as ORD-1001, quoted strings, mail addresses, dates, numbers."""

import re

ID = re.compile(
    r"\b[A-Z]{2,6}-(?:[A-Z0-9]{1,12}-){0,3}[A-Z0-9]{0,12}\d[A-Z0-9]{0,12}\b|\b[a-z]{2,6}-\d{3,12}\b"
)
QUOTED = re.compile(r"\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|(?<!\w)'([^'\n]{2,400})'(?!\w)")
EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
CODE = re.compile(r"\b(?=[A-Z0-9-]{0,30}\d)(?=[A-Z0-9-]{0,30}[A-Z])[A-Z0-9][A-Z0-9-]{3,30}\b")
_PREFIX = re.compile(r"\b([A-Z]{2,6})-(?=[\\\[(\d A-Z])")


def ids(text: str) -> list[str]:
    """The ids in a text, in order, each once, in capitals."""
    return list(dict.fromkeys(match.upper() for match in ID.findall(text)))


def quoted(text: str) -> str | None:
    """The first quoted string."""
    match = QUOTED.search(text)
    return next(filter(None, match.groups()), None) if match else None


def prefix(entity: str) -> str:
    """`ORD` of `ORD-1001`."""
    return entity.partition("-")[0]


def prefix_shown(text: str) -> str | None:
    """The prefix of ids that a schema's text shows, as in "such as ORD-1001" or the pattern `^ORD-\\d+$`."""
    match = _PREFIX.search(text)
    return match[1] if match else None


def is_short_for(prefix_: str, noun: str) -> bool:
    """Whether an id's prefix abbreviates a noun: ORD for order, TKT for ticket."""
    letters = iter(noun.upper())
    return noun[:1].upper() == prefix_[:1] and all(letter in letters for letter in prefix_)


def without_ids(text: str) -> str:
    """The text without its ids."""
    return ID.sub(" ", text)
