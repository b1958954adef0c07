"""Which offered tools a message asks for, by its words against the tools' definitions."""

import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from model_demo.shop import clauses, entities, words
from model_demo.shop.clauses import Clause
from model_demo.shop.tools import Trait

_LEAST = 2.5
_HINT = 1.2
_SYNONYM = 0.7
_ENTITY = 2.5
_IGNORED = 3.0


class Group(msgspec.Struct, frozen=True):
    """A part of the message and the tool that it asks for."""

    text: str
    trait: Trait


class Chooser:
    """Chooses among the offered tools. A word that speaks for few of them counts for more."""

    def __init__(self, traits: Sequence[Trait]) -> None:
        self._traits = traits
        self._nouns = {
            noun for trait in traits for name in trait.ids for noun in words.label(name).split()[:1]
        }
        self._spread = Counter(stem for trait in traits for stem in trait.bag)

    def choose(self, message: str, *, ids_alone: bool = True) -> list[Group]:
        """The parts of the message that ask for a tool, in order. A part asking for none joins its neighbour.

        `ids_alone`: a message of nothing but ids asks for the tool that takes them.
        """
        groups: list[Group] = []
        loose = ""
        for clause in clauses.of(message, self._nouns):
            before = groups[-1].trait if groups else None
            trait = self._best(clause, before)
            if trait is not None:
                groups.append(Group(f"{loose} {clause.text}".strip(), trait))
                loose = ""
            elif before is not None:
                groups[-1] = Group(f"{groups[-1].text} {clause.text}", before)
            else:
                loose = f"{loose} {clause.text}"
        if (
            not groups
            and ids_alone
            and (trait := self._clearest(clauses.read(message, self._nouns))) is not None
        ):
            return [Group(message, trait)]
        return _joined(groups)

    def is_of_the_shop(self, text: str) -> bool:
        """Whether any word of the text is one that speaks for a tool."""
        asked = words.asked(text)
        return any(self._hits(asked, trait, synonyms=True)[0] >= _HINT for trait in self._traits)

    def _best(self, clause: Clause, before: Trait | None) -> Trait | None:
        """The tool that a clause asks for by its words, or by ids that the tool before it does not take."""
        if clause.is_wordy and (trait := self._clearest(clause)) is not None:
            return trait
        ids_for_another = before is not None and clause.kinds and _id_fit(clause, before)[0] <= 0
        return self._clearest(clause) if ids_for_another else None

    def _clearest(self, clause: Clause) -> Trait | None:
        scored = [
            (score, -place)
            for place, trait in enumerate(self._traits)
            if (score := self._score(clause, trait))
        ]
        return self._traits[-max(scored)[1]] if scored else None

    def _score(self, clause: Clause, trait: Trait) -> float:
        """0 where the clause does not ask for the tool; else higher for the better choice."""
        if trait.deed and not (clause.may_change and trait.deed.intersection(clause.asked)):
            return 0.0
        fit, ignores = _id_fit(clause, trait)
        clear, ranked = self._hits(clause.asked, trait, synonyms=not ignores)
        if clear + max(fit, 0.0) < _LEAST:
            return 0.0
        return max(0.01, ranked + fit + (1.0 if trait.deed else 0.0) + (0.5 if trait.shows_one else 0.0))

    def _hits(self, asked: Sequence[str], trait: Trait, *, synonyms: bool) -> tuple[float, float]:
        """How clearly the words speak for the tool, and how much more for it than for the others.

        `synonyms` count where the tool takes every id that is named.
        """
        strengths: dict[str, float] = {}
        for stem in asked:
            others = words.SYNONYMS.get(stem, ()) if synonyms else ()
            for word, factor in [(stem, 1.0), *((other, _SYNONYM) for other in others)]:
                if word in trait.bag:
                    strengths[word] = max(strengths.get(word, 0.0), factor * trait.bag[word])
        clear = ranked = 0.0
        for word, strength in strengths.items():
            common = self._spread[word] > max(2, len(self._traits) // 4)
            clear += strength * (0.6 if common else 1.0)
            ranked += strength * (1 + math.log(len(self._traits) / self._spread[word]))
        return clear, ranked


def _joined(groups: list[Group]) -> list[Group]:
    """Neighbours that ask for one tool are one group: "orders ORD-1001 and ORD-1002"."""
    joined: list[Group] = []
    for group in groups:
        if joined and joined[-1].trait.tool.name == group.trait.tool.name:
            joined[-1] = Group(f"{joined[-1].text} and {group.text}", group.trait)
        else:
            joined.append(group)
    return joined


def _id_fit(clause: Clause, trait: Trait) -> tuple[float, bool]:
    """For ids: good where the tool takes what the clause names, bad where it lacks or ignores one.

    The second value tells whether it ignores one.
    """
    ignored = set(clause.kinds)
    fit = 0.0
    for name, prefix in trait.ids.items():
        matches = {one for one in ignored if one == prefix or (not prefix and _names(one, name))}
        if matches or clause.numbered.intersection(words.label(name).split()[:1]):
            fit = max(fit, _ENTITY if name in trait.required else _ENTITY * 0.6)
            ignored -= matches
    lacks = not fit and any(name in trait.ids for name in trait.required)
    return fit - _IGNORED * len(ignored) - (1.0 if lacks else 0.0), bool(ignored)


def _names(prefix: str, property_name: str) -> bool:
    return any(entities.is_short_for(prefix, part) for part in words.label(property_name).split())
