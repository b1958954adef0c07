"""How the assistant reads a text: stems of words, ids such as ORD-1001, quotes."""

import re

ID = re.compile(r"\b[A-Z]{2,6}-\d{1,12}\b", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“]([^\"”\n]{1,400})[\"”]|(?<!\w)'([^'\n]{2,400})'(?!\w)")
_ENDING = re.compile(r"(?<=\w{3})(?:ations?|ments?|ings?|ed|'?e?s|e|y)$")


def word_set(text: str) -> set[str]:
    """A set of words, written as one text."""
    return set(text.split())


STOP = word_set(
    "a about all also am an and any anything are as at be been but by can could did do does for from had has "
    "have hello hey hi how i i'd i'll i'm if in into is it it's its just let like me my of off on one or our "
    "out please so some something than thank that that's the their them then there these they this those to "
    "too up us was we were what what's which who why will with would yes you your"
)
"""Words that say nothing about a topic. "Where" and "when" do: they ask for a place and a day."""


def label(name: str) -> str:
    """An identifier as words: `order_id` is "order id"."""
    return name.replace("_", " ").lower()


def stems(text: str) -> list[str]:
    """The words that say something, in order, without endings: `shipped`, `ships` and `shipment` are one."""
    spelled = re.findall(r"[a-z][a-z']*|\d+", text.lower().replace("_", " "))
    found = [_ENDING.sub("", word) for word in spelled if word not in STOP]
    return [re.sub(r"([b-df-hj-np-rt-y])\1$", r"\1", stem) for stem in found]


def ids(text: str) -> list[str]:
    """The ids in a text, in order, each once, in capitals."""
    return list(dict.fromkeys(found.upper() for found in ID.findall(text)))


def quoted(text: str) -> str | None:
    match = _QUOTED.search(text)
    return match[1] or match[2] if match else None


def listed(things: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(things[:-1]), *things[-1:]]))


def shortened(text: str, most: int) -> str:
    """The text, or its first `most` characters and a sign that there is more."""
    return text if len(text) <= most else text[:most].rstrip() + "…"
