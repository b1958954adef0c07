"""Answer small talk by a table, and read the persona from the system prompt."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from agentchat.model_demo.assistant import documents, words
from agentchat.model_demo.model_request import DemoConversation, Tool

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
"""Whole messages to answers."""
_RECALL = re.compile(r"what(?:'s| is| are| was) (my|the|our) ([\w' -]{2,60})")
_NAME = re.compile(r"\b(?:[Mm]y name is|I'm|I am)\s+([A-Z][\w'-]{0,40})\b")
_FACT = re.compile(
    r"\b(?:my|the|our)\s+([a-z][\w' -]{1,60}?)\s+(?:is|are|was)\s+([^\n.!?]{1,200})", re.IGNORECASE
)
_ASKS = re.compile(r"\s*(?:what|who|where|which|when|how|is|are|do|does)\b|.*\?\s*$", re.IGNORECASE)


class Memory(NamedTuple):
    """The facts that the person stated, by the stems of their subject.

    The person's name is one. `sentences` are the sentences that state them, `ids` the ids that were
    mentioned.
    """

    facts: dict[str, str]
    sentences: list[str]
    ids: list[str]

    @property
    def name(self) -> str | None:
        """Return the person's name, if stated."""
        return self.facts.get("name")


def remember(conversation: DemoConversation) -> Memory:
    """Return the facts in the person's messages so far."""
    written = [documents.extract_text(text) for text in (*conversation.earlier, conversation.question)]
    sentences = [each.strip() for text in written for each in re.split(r"(?<=[.!?])\s+|\n", text)]
    stating = list(dict.fromkeys(each for each in sentences if any(_find_facts(each))))
    facts = dict(fact for each in stating for fact in _find_facts(each))
    return Memory(facts, stating, words.find_ids("\n".join(written)))


def _find_facts(sentence: str) -> Iterator[tuple[str, str]]:
    if not _ASKS.match(sentence):
        for subject, value in _FACT.findall(sentence):
            yield " ".join(words.find_stems(subject)), value.strip()
    yield from (("name", name) for name in _NAME.findall(sentence))


class Persona(msgspec.Struct, frozen=True):
    """The orders of the system prompt.

    `identity` completes "I am ...", `around` begins and ends replies, `only` replaces them.
    """

    identity: str
    around: dict[str, str]
    only: str | None

    def speak(self, text: str) -> str:
        """Return the reply with this text."""
        return self.only or " ".join(filter(None, [self.around.get("begin"), text, self.around.get("end")]))


def read_persona(system: str) -> Persona:
    """Read the persona from a system prompt, ignoring documents in it."""
    prompt = documents.remove_documents(system)
    name, only = _YOU_ARE.search(prompt), _ONLY.search(_AROUND.sub(" ", prompt))
    around = {where.lower(): text for where, text in _AROUND.findall(prompt)}
    identity = name[1].strip(" ,") if name else "the assistant of the demo shop"
    return Persona(identity, around, only[1] or only[2] if only else None)


def answer(question: str, who: Persona, known: Memory, tools: list[Tool]) -> str | None:
    """Return the answer to a message of small talk; None for any other."""
    text = " ".join(question.split()).strip(" .!?")
    for pattern, reply in _ANSWERS.items():
        if match := re.fullmatch(rf"(?:(?:please|hi|hello|hey),? )?(?:{pattern})", text, re.IGNORECASE):
            return reply.format(
                name=f", {known.name}" if known.name else "",
                identity=who.identity,
                offer=_offer(tools, _SHOWN_TOOLS),
                abilities=_offer(tools, len(tools)),
                summary=_summarize(known),
                said=next(filter(None, match.groups()), ""),
            )
    match = _RECALL.fullmatch(text.lower())
    return _recall_fact(match[1], match[2], known) if match else None


def _recall_fact(owner: str, subject: str, known: Memory) -> str | None:
    """Return a fact that was stated earlier, such as "my colour is blue"."""
    if value := known.facts.get(" ".join(words.find_stems(subject))):
        return f"{'The' if owner == 'the' else 'Your'} {subject} is {value}."
    return "You have not told me your name yet." if (owner, subject) == ("my", "name") else None


def _summarize(known: Memory) -> str:
    """Summarise: keep the stated facts in the person's own words."""
    spoken_of = [f"We spoke of {words.join(known.ids[:_MOST_IDS])}."] if known.ids else []
    lines = [*known.sentences, *spoken_of] or ["Nothing was told that is to be remembered."]
    return words.shorten("\n".join(lines), _SUMMARY_LENGTH)


def note_fact(question: str, known: Memory) -> str | None:
    """Return an acknowledgement for a message that states a fact; else None."""
    if known.name and known.name in question:
        return f"Nice to meet you, {known.name}! What can I do for you?"
    stems = set(words.find_stems(question))
    states_a_fact = not question.endswith("?") and any(stems.issuperset(fact.split()) for fact in known.facts)
    return "Good to know; I will remember that." if states_a_fact else None


def give_up(question: str, tools: list[Tool]) -> str:
    """Return the answer to a message that is not understood."""
    shown = words.shorten(" ".join(question.split()), _SHOWN_LENGTH)
    offer = _offer(tools, _SHOWN_TOOLS)
    return f'I am an offline demo model and have no good answer to "{shown}". {offer}'


def _offer(tools: list[Tool], most: int) -> str:
    if not tools:
        return "I can chat, remember what you tell me, and answer from documents that I am given."
    more = [f"{len(tools) - most} things more"] if len(tools) > most else []
    return f"I can help with this: {words.join([words.to_label(tool.name) for tool in tools[:most]] + more)}."
