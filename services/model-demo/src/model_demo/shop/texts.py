"""Texts in a message, found by what the property is called: what to search for, what happened, who."""

import re

import msgspec

from model_demo.shop import entities, numbers, words
from model_demo.shop.schemas import Schema

_QUERIES = words.listed("query q search keyword keywords question term terms topic phrase")
_ACCOUNTS = words.listed("message description body text details comment note notes content issue problem")
_HEADLINES = words.listed("subject title headline summary")
_CODES = words.listed("number code sku coupon voucher")
_REASONS = words.listed("reason cause why")
_BECAUSE = re.compile(r"\b(?:because(?: of)?|since|due to|reason(?: is|:)?)\s+([^\n]{2,300})", re.IGNORECASE)
_SHAPES = 3
_MOST = 2000
_NESTED = re.compile(r"[)\]][*+{][^)]*[)][*+{]")


def is_query(name: str) -> bool:
    """Whether the property takes what is to be searched for: it is filled even where it may be left out."""
    return bool(set(words.label(name).split()) & _QUERIES)


def by_pattern(schema: Schema, text: str) -> str | None:
    """The first thing in the text that fits the schema's `pattern`; risky patterns are not tried."""
    pattern = schema.get("pattern")
    if not isinstance(pattern, str) or len(pattern) > 80 or _NESTED.search(pattern):
        return None
    try:
        found = re.compile(rf"(?<![\w-])(?:{pattern.removeprefix('^').removesuffix('$')})(?![\w-])")
    except re.error:
        return None
    match = found.search(text[:_MOST])
    return match[0] if match and match[0] else None


class Said(msgspec.Struct, frozen=True):
    """`part` of the message asks for the tool, `whole` is all of it; `taken` are stems used up otherwise."""

    part: str
    whole: str
    taken: frozenset[str]
    needed: bool


def text(name: str, schema: Schema, said: Said) -> str | None:
    """The text that the message gives for a property."""
    kinds = set(words.label(name).split())
    if kinds & _QUERIES:
        return _fitting(_query(schema, said), schema)
    if kinds & _REASONS:
        match = _BECAUSE.search(said.part)
        return _fitting(match[1].strip(" .!") if match else None, schema)
    if kinds & _ACCOUNTS:
        return _fitting(entities.quoted(said.part) or _after_colon(said.whole) or said.whole.strip(), schema)
    if kinds & _HEADLINES:
        return _fitting(entities.quoted(said.part) or _headline(said.whole), schema)
    if kinds & _CODES and (codes := entities.CODE.findall(entities.without_ids(said.part))):
        return _fitting(codes[0], schema)
    return _fitting(_spoken(name, said.part), schema)


def by_example(schema: Schema, part: str) -> str | None:
    """Something in the text that is written like the schema's example: "Seeweg 14", "6020", "Innsbruck"."""
    examples = schema.get("examples")
    example = examples[0] if isinstance(examples, list) and examples else None
    if not isinstance(example, str) or len(example.split()) > _SHAPES:
        return None
    shapes = [_shape(word) for word in example.split()]
    if not shapes or None in shapes:
        return None
    pattern = rf"(?<![\w-])(?<!^){' '.join(map(str, shapes))}(?![\w-])"
    match = re.search(pattern, entities.without_ids(part)[:_MOST])
    return match[0] if match else None


def _shape(word: str) -> str | None:
    if word.isdecimal():
        return rf"\d{{{max(1, len(word) - 1)},{len(word) + 1}}}"
    if word.isalpha() and word.isupper():
        return rf"[A-Z]{{{len(word)}}}"
    return r"[A-ZÀ-Þ][^\W\d_][\w'.-]*" if word.isalpha() and word.istitle() else None


def _query(schema: Schema, said: Said) -> str | None:
    part = said.part
    told = f"{schema.get('description', '')} {schema.get('examples', '')}".lower()
    if "mail" in told and (match := entities.EMAIL.search(part)):
        return match[0]
    if (given := entities.quoted(part)) is not None:
        return given
    left = entities.without_ids(part)
    for pattern in numbers.PHRASES:
        left = pattern.sub(" ", left)
    kept = [word for word in re.findall(r"[^\W_][\w'-]*", left) if word.lower() not in words.STOP]
    taken = frozenset() if said.needed else said.taken
    meant = [word for word in kept if word.lower() not in words.COMMANDS and words.stem(word) not in taken]
    return " ".join(meant or (kept if said.needed else [])) or None


def _spoken(name: str, part: str) -> str | None:
    """What is said after the property's own name: `city: Graz`, `my email is ada@example.com`."""
    kinds = words.label(name).split()
    if "email" in kinds or "mail" in kinds:
        match = entities.EMAIL.search(part)
        return match[0] if match else None
    said = re.search(
        rf"\b{re.escape(kinds[-1] if kinds else name)}\s*(?:is|:|=|to|called|named)?\s+([^\s,.;!?]{{1,80}})",
        part,
        re.IGNORECASE,
    )
    value = entities.quoted(part) or (said[1] if said else None)
    return None if value is None or value.lower() in words.STOP else value


def _after_colon(whole: str) -> str | None:
    _, colon, rest = whole.partition(": ")
    return rest.strip() if colon and len(rest.split()) > 1 else None


def _headline(whole: str) -> str:
    first = re.split(r"[.!?\n]", _after_colon(whole) or whole, maxsplit=1)[0].strip()
    return first[:80].rstrip() or whole[:80]


def _fitting(value: str | None, schema: Schema) -> str | None:
    """The value within the schema's lengths, or none."""
    if value is None:
        return None
    most, least = schema.get("maxLength"), schema.get("minLength")
    if isinstance(most, int):
        value = value[:most].rstrip()
    return value if len(value) >= (least if isinstance(least, int) else 1) else None
