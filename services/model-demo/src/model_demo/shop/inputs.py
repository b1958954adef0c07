"""A tool's input, filled from the message and from what was said before."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from model_demo.conversation import Conversation
from model_demo.shop import documents, entities, instances, memory, numbers, schemas, texts, tools, words
from model_demo.shop.memory import Memory
from model_demo.shop.schemas import Schema
from model_demo.shop.tools import Trait
from model_demo.wire.requests import Tool

_MOST_CALLS = 6
_DEFAULTS = ("other", "general", "unknown", "any", "all", "normal", "default")
_MEANINGS = {
    "cheap": "pric low",
    "expensiv": "pric high",
    "urgent": "high",
    "slow": "worst",
    "slowest": "worst",
    "latest": "new",
    "bought": "deliver",
}


class Filled(msgspec.Struct, frozen=True):
    """`inputs`: one for each call to make. `missing`: required properties for which nothing was said."""

    inputs: tuple[dict[str, Any], ...]
    missing: tuple[str, ...]


def fill(trait: Trait, part: str, whole: str, known: Memory) -> Filled:
    """Fill the tool's input from the part of the message that asks for it, the whole message, and memory."""
    filler = _Filler(trait, part, whole, known)
    one = filler.fill()
    missing = tuple(name for name in trait.required if name not in one)
    return Filled(tuple(_each(one, filler.several)), missing)


def forced(tool: Tool, conversation: Conversation) -> dict[str, Any]:
    """An input for a tool that must be called: what the message gives, for the rest the least that fits."""
    question = documents.said(conversation.question)
    trait = tools.trait(tool)
    one = _Filler(trait, question, question, memory.remember(conversation)).fill()
    maker = instances.Maker(tool.input_schema, question)
    made = maker.make(tool.input_schema, given=one)
    return made if isinstance(made, dict) else one


def _each(one: dict[str, Any], several: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """A call for each id, where the message names several and the property takes one."""
    for name, values in several.items():
        for value in values[:_MOST_CALLS]:
            yield {**one, name: value}
        return
    yield one


class _Filler:
    def __init__(self, trait: Trait, part: str, whole: str, known: Memory) -> None:
        self._trait = trait
        self._part = part
        self._whole = whole
        self._known = known
        self._taken: set[str] = set()
        self._rest = part
        self.several: dict[str, list[str]] = {}

    def fill(self) -> dict[str, Any]:
        """Ids, choices and numbers first: what they take is no part of a text to search for."""
        properties = self._trait.properties
        late = [name for name, schema in properties.items() if self._is_text(name, schema)]
        early = [name for name in properties if name not in late]
        found = {name: self._value(name, properties[name]) for name in early}
        found |= {name: self._value(name, properties[name]) for name in late}
        return {name: found[name] for name in properties if found[name] is not None}

    def _is_text(self, name: str, schema: Schema) -> bool:
        return (
            schema.get("type") == "string"
            and not schemas.choices(schema)
            and tools.id_prefix(name, schema) is None
        )

    def _value(self, name: str, schema: Schema) -> Any:
        needed = name in self._trait.required
        if "const" in schema:
            return schema["const"] if needed else None
        if schemas.choices(schema):
            return self._choice(schema, needed)
        if (prefix := tools.id_prefix(name, schema)) is not None and (
            prefix or schema.get("type") != "string" or "pattern" not in schema
        ):
            found = self._id(name, schema, prefix, needed)
            if found is not None or prefix:
                return found
        match schema.get("type"):
            case "integer" | "number":
                return numbers.number(name, schema, self._part, needed=needed)
            case "boolean":
                return True if self._is_meant(name) else None
            case "object" if needed:
                return self._nested(schema)
            case "string":
                return self._text(name, schema, needed)
        return None

    def _choice(self, schema: Schema, needed: bool) -> Any:
        """The choice whose words are said; several where the property takes several."""
        said = set(words.stems(self._part))
        said |= {meant for stem in said for meant in _MEANINGS.get(stem, "").split()}
        chosen = [choice for choice in schemas.choices(schema) if self._says(choice, said)]
        self._taken.update(stem for choice in chosen for stem in words.stems(str(choice)))
        if schema.get("type") == "array":
            return chosen or None
        if chosen:
            return max(chosen, key=lambda choice: len(str(choice)))
        if needed and "default" not in schema:
            return next((one for one in schemas.choices(schema) if str(one).lower() in _DEFAULTS), None)
        return schema.get("default") if needed else None

    def _says(self, choice: Any, said: set[str]) -> bool:
        stems = words.stems(str(choice))
        return bool(stems) and all(stem in said for stem in stems)

    def _id(self, name: str, schema: Schema, prefix: str, needed: bool) -> Any:
        noun = words.label(name).rsplit(" ", 1)[0].rstrip("s")
        found = [one for one in entities.ids(self._part) if _is_kind(one, prefix, noun)]
        if not found and prefix:
            found = _numbered(self._part, noun, prefix)
        if not found:
            found = [one for one in entities.ids(self._whole) if _is_kind(one, prefix, noun)][:1]
        if not found and needed:
            found = self._remembered(name, prefix, noun)
        if schema.get("type") == "array":
            least = schema.get("minItems", 1)
            return found if found and len(found) >= least else None
        if len(found) > 1:
            self.several[name] = found
        return found[0] if found else None

    def _remembered(self, name: str, prefix: str, noun: str) -> list[str]:
        """First what this turn's tools found, then what was spoken of last."""
        candidates = [self._known.found_fields.get(name, ""), *self._known.found, *self._known.ids]
        return [one for one in candidates if one and _is_kind(one, prefix, noun)][:1]

    def _is_meant(self, name: str) -> bool:
        telling = [stem for stem in words.topics(name) if stem not in ("only", "includ", "is", "has")]
        return bool(telling) and all(stem in words.stems(self._part) for stem in telling)

    def _nested(self, schema: Schema) -> dict[str, Any] | None:
        inner = tools.nested(self._trait, schema)
        filled = fill(inner, self._part, self._whole, self._known)
        return None if filled.missing else filled.inputs[0]

    def _text(self, name: str, schema: Schema, needed: bool) -> str | None:
        if schema.get("format") == "date":
            return numbers.day(name, schema, self._part)
        if schema.get("pattern") is not None:
            found = texts.by_pattern(schema, entities.without_ids(self._rest))
        elif needed or texts.is_query(name) or "reason" in name:
            found = texts.text(name, schema, texts.Said(self._rest, self._whole, self._own_words(), needed))
            found = found or texts.by_example(schema, self._rest)
        else:
            found = None
        if found is None and needed and "name" in words.label(name).split():
            found = self._known.name
        if found and needed and not texts.is_query(name):
            self._rest = self._rest.replace(found, " ", 1)
        return found

    def _own_words(self) -> frozenset[str]:
        """What a search leaves out: words that other properties took, and the tool's own name."""
        return frozenset(self._taken) | frozenset(words.stems(self._trait.tool.name))


def _is_kind(entity: str, prefix: str, noun: str) -> bool:
    if prefix:
        return entities.prefix(entity) == prefix
    return entities.is_short_for(entities.prefix(entity), noun)


def _numbered(part: str, noun: str, prefix: str) -> list[str]:
    """`order 1028` is ORD-1028, where ORD is what the schema shows."""
    found = re.findall(
        rf"\b{re.escape(noun)}s?\s*(?:number|no\.?|id|#)?\s*#?(\d{{2,8}})\b", part, re.IGNORECASE
    )
    return [f"{prefix}-{digits}" for digits in found]
