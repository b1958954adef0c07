"""Talk that needs no tool, as a table of messages and answers; and what the system prompt orders."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from agentchat.model_demo.request import DemoConversation, Tool
from agentchat.model_demo.shop import documents, words

_YOU_ARE = re.compile(r"\b(?:You are|Your name is)\s+([^\n.;:!?]{2,120})")
_ONLY = re.compile(
    r"\b(?:reply|answer|respond)\s+(?:(?:only|always|just|exactly|with|the|single|one|words?)\s*)+:?\s*"
    r"(?:[\"“]([^\"”\n]{1,400})[\"”]|((?-i:[A-Z][A-Z0-9_-]{1,60}))\b)",
    re.IGNORECASE,
)
_AROUND = re.compile(
    r"\b(begin|end) (?:(?:each|every|your) )?(?:reply|answer|it) with [\"“]([^\"”\n]{1,400})[\"”]",
    re.IGNORECASE,
)
_SHOWN_LENGTH, _SHOWN_TOOLS, _SUMMARY_LENGTH, _MOST_IDS = 80, 3, 4000, 20

_STORY = """\
Every morning, before the first customer wakes, the lamps of the demo shop come on one after the other. \
The tents stand in a row, the boots wait in their boxes, and the kettle in the back room begins to sing.

The first order of the day is always a small one. Somebody far away has a torn glove, or a birthday to \
remember. It is packed as carefully as the heavy ones: paper, a note, a label, and a pat on the lid. By noon \
the shop is loud. Boxes slide, scanners chirp, and the courier asks for a pen, as he has done every day for \
years. A backpack leaves for the mountains.

In the evening the last parcel is counted and the lamps go out again. Only the little light above the order \
book stays on, in case somebody asks, late at night, where their parcel is. And somebody always does."""

_ANSWERS = {
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening))(?: there)?(?:,? \w+)?": (
        "Hello{name}! I am {identity}. {offer}"
    ),
    r"(?:many )?(?:thanks|thank you)\b.*|great|perfect|ok": "You are welcome! Is there anything else?",
    r"(?:good ?bye|bye|see you|good night)(?: bye| later| soon)?": "Goodbye, and thank you for visiting!",
    r"who are you|what(?:'s| is) your name": "I am {identity}.",
    r"(?:what|which) model are you|are you (?:an? )?(?:real|human|person|bot|robot|ai)\b.*": (
        "I am {identity}, played by an offline demo model: rules, not a language model, and no person."
    ),
    r"(?:can you )?help(?: me)?|what can you do": "{abilities}",
    r"(?:say|repeat(?: after me)?)(?: (?:only|just|exactly))?:?\s*(?:[\"“](.+)[\"”]|(?<=: )(.+))": "{said}",
    r"summari[sz]e (?:this|the|our) conversation\b.*": "{summary}",
    r"(?:tell|write|give)(?: me)? (?:a|an|another)(?: \w+)? (?:story|poem|tale|text)\b.*": _STORY,
}
"""Complete messages, and their answers."""
_RECALL = re.compile(r"what(?:'s| is| are| was) (my|the|our) ([\w' -]{2,60})")
_NAME = re.compile(r"\b(?:[Mm]y name is|I'm|I am)\s+([A-Z][\w'-]{0,40})\b")
_FACT = re.compile(
    r"\b(?:my|the|our)\s+([a-z][\w' -]{1,60}?)\s+(?:is|are|was)\s+([^\n.!?]{1,200})", re.IGNORECASE
)
_ASKS = re.compile(r"\s*(?:what|who|where|which|when|how|is|are|do|does)\b|.*\?\s*$", re.IGNORECASE)


class Memory(NamedTuple):
    """`facts`: stems of the subject to what was written of it; `name` is one of them. `sentences` are those
    with the facts, `ids` those that were spoken of."""

    facts: dict[str, str]
    sentences: list[str]
    ids: list[str]

    @property
    def name(self) -> str | None:
        return self.facts.get("name")


def remember(conversation: DemoConversation) -> Memory:
    """Return what the person has written so far, the question included."""
    written = [documents.plain_text(text) for text in (*conversation.earlier, conversation.question)]
    sentences = [each.strip() for text in written for each in re.split(r"(?<=[.!?])\s+|\n", text)]
    stating = list(dict.fromkeys(each for each in sentences if any(_facts_of(each))))
    facts = dict(fact for each in stating for fact in _facts_of(each))
    return Memory(facts, stating, words.ids("\n".join(written)))


def _facts_of(sentence: str) -> Iterator[tuple[str, str]]:
    if not _ASKS.match(sentence):
        for subject, value in _FACT.findall(sentence):
            yield " ".join(words.stems(subject)), value.strip()
    yield from (("name", name) for name in _NAME.findall(sentence))


class Persona(msgspec.Struct, frozen=True):
    """What the system prompt orders. `identity` completes "I am ..."; `around`: what replies begin and end
    with; `only` is to be the complete reply."""

    identity: str
    around: dict[str, str]
    only: str | None

    def says(self, text: str) -> str:
        return self.only or " ".join(filter(None, [self.around.get("begin"), text, self.around.get("end")]))


def persona(system: str) -> Persona:
    """Read the persona out of a system prompt; documents in it are no part of the prompt."""
    prompt = documents.without(system)
    name, only = _YOU_ARE.search(prompt), _ONLY.search(_AROUND.sub(" ", prompt))
    around = {where.lower(): text for where, text in _AROUND.findall(prompt)}
    identity = name[1].strip(" ,") if name else "the assistant of the demo shop"
    return Persona(identity, around, only[1] or only[2] if only else None)


def answer(question: str, who: Persona, known: Memory, tools: list[Tool]) -> str | None:
    """Return the answer to a message that is nothing but small talk, else None."""
    text = " ".join(question.split()).strip(" .!?")
    for pattern, reply in _ANSWERS.items():
        if match := re.fullmatch(rf"(?:(?:please|hi|hello|hey),? )?(?:{pattern})", text, re.IGNORECASE):
            return reply.format(
                name=f", {known.name}" if known.name else "",
                identity=who.identity,
                offer=_offer(tools, _SHOWN_TOOLS),
                abilities=_offer(tools, len(tools)),
                summary=_summary(known),
                said=next(filter(None, match.groups()), ""),
            )
    match = _RECALL.fullmatch(text.lower())
    return _recalled(match[1], match[2], known) if match else None


def _recalled(owner: str, subject: str, known: Memory) -> str | None:
    """Return a fact that was stated earlier: "my colour is blue"."""
    if value := known.facts.get(" ".join(words.stems(subject))):
        return f"{'The' if owner == 'the' else 'Your'} {subject} is {value}."
    return "You have not told me your name yet." if (owner, subject) == ("my", "name") else None


def _summary(known: Memory) -> str:
    """Return the stated facts in the person's own words: a summary that replaces the rest keeps them."""
    spoken_of = [f"We spoke of {words.listed(known.ids[:_MOST_IDS])}."] if known.ids else []
    lines = [*known.sentences, *spoken_of] or ["Nothing was told that is to be remembered."]
    return words.shortened("\n".join(lines), _SUMMARY_LENGTH)


def note_fact(question: str, known: Memory) -> str | None:
    """Return a kind word for a message that states a name or another fact."""
    if known.name and known.name in question:
        return f"Nice to meet you, {known.name}! What can I do for you?"
    stems = set(words.stems(question))
    states_a_fact = not question.endswith("?") and any(stems.issuperset(fact.split()) for fact in known.facts)
    return "Good to know; I will remember that." if states_a_fact else None


def give_up(question: str, tools: list[Tool]) -> str:
    shown = words.shortened(" ".join(question.split()), _SHOWN_LENGTH)
    offer = _offer(tools, _SHOWN_TOOLS)
    return f'I am an offline demo model and have no good answer to "{shown}". {offer}'


def _offer(tools: list[Tool], most: int) -> str:
    if not tools:
        return "I can chat, remember what you tell me, and answer from documents that I am given."
    more = [f"{len(tools) - most} things more"] if len(tools) > most else []
    return f"I can help with this: {words.listed([words.label(tool.name) for tool in tools[:most]] + more)}."
