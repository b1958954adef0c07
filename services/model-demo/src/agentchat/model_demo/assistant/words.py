"""Find word stems and ids such as ORD-1001 in a text."""

import re

ID = re.compile(r"\b[A-Z]{2,6}-\d{1,12}\b", re.IGNORECASE)
_ENDING = re.compile(r"(?<=\w{3})(?:ations?|ments?|ings?|ed|'?e?s|e|y)$")


def split_words(text: str) -> set[str]:
    """Split a text into a set of words."""
    return set(text.split())


STOP = split_words(
    "a about all also am an and any anything are as at be been but by can could did do does for from had has "
    "have hello hey hi how i i'd i'll i'm if in into is it it's its just let like me my of off on one or our "
    "out please so some something than thank that that's the their them then there these they this those to "
    "too up us was we were what what's which who why will with would yes you your"
)
"""Words without a topic. "Where" and "when" are not among them: they ask for a place or a day."""


def to_label(name: str) -> str:
    """Return an identifier as words: `order_id` is "order id"."""
    return name.replace("_", " ").lower()


def find_stems(text: str) -> list[str]:
    """Return the topic words in order, without endings: `shipped` and `shipment` are one stem."""
    spelled = re.findall(r"[a-z][a-z']*|\d+", text.lower().replace("_", " "))
    found = [_ENDING.sub("", word) for word in spelled if word not in STOP]
    return [re.sub(r"([b-df-hj-np-rt-y])\1$", r"\1", stem) for stem in found]


def find_ids(text: str) -> list[str]:
    """Return the ids in a text, in order, each once, in capitals."""
    return list(dict.fromkeys(found.upper() for found in ID.findall(text)))


def join(names: list[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def shorten(text: str, most: int) -> str:
    """Return the text, or its first `most` characters with an ellipsis."""
    return text if len(text) <= most else text[:most].rstrip() + "…"
