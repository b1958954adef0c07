"""What can be known about an offered tool from its definition alone."""

import functools
import re
from collections.abc import Iterator

import msgspec

from model_demo.shop import entities, schemas, words
from model_demo.shop.schemas import Schema
from model_demo.wire.requests import Tool

_NAMES = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_READS = words.listed(
    "get list find search check show lookup look track compare recommend read describe view estimate"
    " calculate fetch query suggest analyze forecast browse summarize report"
)
_SHOWS = words.listed("get show read view describe fetch details lookup")
_PLAIN = words.listed("show tell list get find give search report fetch see check look use provide read")
_WRITES = {
    "cancel": "cancel stop abort",
    "create": "create open file rais submit report complain make start new",
    "update": "update chang edit modif set correct move switch",
    "return": "return refund back",
    "add": "add appl redeem use put",
    "remove": "remov delet drop clear",
    "escalate": "escalat human manager person agent",
    "schedule": "schedul book reserv",
    "send": "send notif email mail",
}
_ALIASES = {
    "open": "create",
    "submit": "create",
    "file": "create",
    "place": "create",
    "start": "create",
    "initiate": "create",
    "request": "create",
    "register": "create",
    "raise": "create",
    "change": "update",
    "edit": "update",
    "modify": "update",
    "set": "update",
    "refund": "return",
    "apply": "add",
    "redeem": "add",
    "delete": "remove",
    "book": "schedule",
    "reserve": "schedule",
    "notify": "send",
}


class Trait(msgspec.Struct, frozen=True):
    """A tool as the assistant sees it. `bag`: stem to how strongly it speaks for the tool (name 3, text 1).

    `deed`: of these stems one must be said before a tool that changes something is used; empty for others.
    `ids`: each property that holds an id, with the prefix of such ids.
    """

    tool: Tool
    bag: dict[str, float]
    deed: frozenset[str]
    properties: dict[str, Schema]
    required: tuple[str, ...]
    ids: dict[str, str]

    @property
    def shows_one(self) -> bool:
        """Whether the tool's name says that it shows a thing: what one means who only names it."""
        return bool(_SHOWS.intersection(words.label(self.tool.name).split()))


@functools.lru_cache(maxsize=512)
def _trait(encoded: bytes) -> Trait:
    tool = msgspec.json.decode(encoded, type=Tool)
    bare = _of_schema(tool, tool.input_schema)
    return msgspec.structs.replace(bare, bag=_bag(tool, bare.properties), deed=_deed(tool.name))


def trait(tool: Tool) -> Trait:
    """The trait of a tool; kept for definitions seen before, as every round brings the same ones."""
    return _trait(msgspec.json.encode(tool))


def nested(trait: Trait, schema: Schema) -> Trait:
    """A property that is an object itself, as a trait to fill."""
    return _of_schema(trait.tool, schema)


def title(tool: Tool) -> str:
    """What the tool does in a few words: its schema's title, else its name."""
    given = tool.input_schema.get("title")
    return given if isinstance(given, str) and " " in given else words.label(tool.name)


def summary(tool: Tool) -> str:
    """The first sentence of the description, without the names of other tools."""
    return re.split(r"(?<=[.!?])\s|\n", _NAMES.sub(" ", tool.description).strip(), maxsplit=1)[0].rstrip(".")


def id_prefix(name: str, schema: Schema) -> str | None:
    """For a property that holds an id, its prefix (ORD), or "" where none is shown; None for other ones."""
    shown = [schema.get("pattern"), schema.get("examples"), schema.get("default")]
    if isinstance(items := schema.get("items"), dict):
        shown += [items.get("pattern"), items.get("examples")]
    prefix = entities.prefix_shown(str([text for text in shown if text is not None]))
    if prefix:
        return prefix
    parts = words.label(name).split()
    told = entities.prefix_shown(str(schema.get("description", "")))
    if parts and parts[-1] in ("id", "ids", "ref", "reference"):
        return told or ""
    return told if told and parts and entities.is_short_for(told, parts[0].rstrip("s")) else None


def _of_schema(tool: Tool, schema: Schema) -> Trait:
    found = schemas.properties(schema, tool.input_schema)
    ids = {name: prefix for name, one in found.items() if (prefix := id_prefix(name, one)) is not None}
    needed = tuple(name for name in schemas.required(schema) if name in found)
    return Trait(tool, {}, frozenset(), found, needed, ids)


def _bag(tool: Tool, found: dict[str, Schema]) -> dict[str, float]:
    bag: dict[str, float] = {}
    for weight, text in _told(tool, found):
        for stem in words.topics(text):
            bag[stem] = max(bag.get(stem, 0.0), weight)
    for quote in entities.QUOTED.findall(tool.description):
        for stem in words.asked("".join(quote)):
            bag[stem] = max(bag.get(stem, 0.0), 2.0)
    return bag


def _told(tool: Tool, found: dict[str, Schema]) -> Iterator[tuple[float, str]]:
    yield 3.0, tool.name
    if isinstance(given := tool.input_schema.get("title"), str):
        yield 2.5, given
    yield 1.4, summary(tool)
    yield 2.5, " ".join(word for word in words.split(summary(tool))[:1] if word.lower() not in _PLAIN)
    yield 1.0, _NAMES.sub(" ", tool.description)
    for name, schema in found.items():
        yield 1.2, name
        yield 0.5, str(schema.get("description", ""))
        yield 1.0, " ".join(map(str, schemas.choices(schema)))


def _deed(name: str) -> frozenset[str]:
    for part in words.label(name).split():
        if part in _READS:
            return frozenset()
        if (verb := _ALIASES.get(part, part)) in _WRITES:
            return frozenset(_WRITES[verb].split()) | {words.stem(part)}
    return frozenset()
