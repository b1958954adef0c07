"""Talk that needs no tool: greetings, who one is, what was said before, small sums, a story."""

import re
from collections.abc import Callable, Sequence

import msgspec

from model_demo.shop import persona, recall, stories, tools, words
from model_demo.shop.memory import Memory
from model_demo.shop.persona import Persona
from model_demo.wire.requests import Tool

_MOST_COUNT = 1000
_SHOWN_TOOLS = 6


class Talk(msgspec.Struct, frozen=True):
    """What there is to talk about."""

    question: str
    system: str
    persona: Persona
    memory: Memory
    tools: tuple[Tool, ...]


Answer = Callable[[Talk, re.Match[str]], str | None]


def answer(talk: Talk) -> str | None:
    """The answer to a message that is small talk as a whole; none for every other message."""
    text = " ".join(talk.question.split()).strip(" .!?")
    for pattern, reply in _PATTERNS:
        match = pattern.fullmatch(text)
        if match and (said := reply(talk, match)) is not None:
            return said
    return None


def introduction(talk: Talk) -> str | None:
    """A kind word where the message tells a name."""
    name = talk.memory.name
    if name is None or not re.search(rf"\b{re.escape(name)}\b", talk.question):
        return None
    return f"Nice to meet you, {name}! What can I do for you?"


def noted(talk: Talk) -> str | None:
    """A word for a message that tells something to be remembered."""
    if talk.question.rstrip().endswith("?"):
        return None
    if re.search(r"\bremember\b", talk.question, re.IGNORECASE):
        return "I will remember that."
    for subject in talk.memory.facts:
        if set(subject.split()) <= set(words.stems(talk.question)):
            return "Good to know; I will remember that."
    return None


def lost(talk: Talk) -> str:
    """The answer where nothing else fits."""
    shown = " ".join(talk.question.split())
    shown = shown if len(shown) <= 80 else shown[:79] + "…"
    return f'I am an offline demo model and have no good answer to "{shown}". {_offer(talk.tools)}'


def _offer(offered: Sequence[Tool]) -> str:
    if not offered:
        return "I can chat, remember what you tell me, and answer from documents that I am given."
    titles = [words.label(tools.title(tool)) for tool in offered[:3]]
    more = f", and {len(offered) - 3} things more" if len(offered) > 3 else ""
    return f"I can help with this: {', '.join(titles)}{more}. Just ask."


def _greet(talk: Talk, _match: re.Match[str]) -> str:
    name = f", {talk.memory.name}" if talk.memory.name else ""
    return f"Hello{name}! I am {talk.persona.identity}. {_offer(talk.tools)}"


def _who(talk: Talk, _match: re.Match[str]) -> str:
    return f"I am {talk.persona.identity}."


def _instructions(talk: Talk, _match: re.Match[str]) -> str:
    return persona.quote(talk.system)


def _abilities(talk: Talk, _match: re.Match[str]) -> str:
    if not talk.tools:
        return _offer(talk.tools)
    lines = [
        f"- **{tools.title(tool).capitalize()}**: {tools.summary(tool)}" for tool in talk.tools[:_SHOWN_TOOLS]
    ]
    if more := [words.label(tools.title(tool)) for tool in talk.tools[_SHOWN_TOOLS:]]:
        lines.append(f"- and also: {', '.join(more)}")
    return "\n".join(["Here is what I can do for you:", "", *lines])


def _exactly(_talk: Talk, match: re.Match[str]) -> str:
    return next(filter(None, match.groups()), "").strip()


def _sum(_talk: Talk, match: re.Match[str]) -> str | None:
    left, sign, right = int(match[1]), match[2].lower(), int(match[3])
    if sign in ("/", "divided by"):
        return None if right == 0 else f"{left} {sign} {right} is {left / right:g}."
    value = {"+": left + right, "plus": left + right, "-": left - right, "minus": left - right}.get(
        sign, left * right
    )
    return f"{left} {sign} {right} is {value}."


def _count(_talk: Talk, match: re.Match[str]) -> str:
    first, last = int(match[1] or 1), int(match[2])
    return ", ".join(map(str, range(first, min(last, first + _MOST_COUNT - 1) + 1))) + "."


def _words(_talk: Talk, match: re.Match[str]) -> str:
    return stories.of_length(int(match[1]))


def _recalling(answer_from: Callable[[Memory, re.Match[str]], str | None]) -> Answer:
    return lambda talk, match: answer_from(talk.memory, match)


def _say(text: str) -> Answer:
    return lambda _talk, _match: text


def _compiled(table: Sequence[tuple[str, Answer]]) -> list[tuple[re.Pattern[str], Answer]]:
    return [(re.compile(pattern, re.IGNORECASE), reply) for pattern, reply in table]


_PLEASE = r"(?:please )?"
_PATTERNS = _compiled(
    [
        (
            r"(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|greetings)(?: there| again)?(?:,? \w+)?",
            _greet,
        ),
        (
            r"(?:hi|hello|hey)?,? ?how (?:are|r) (?:you|u)(?: doing)?(?: today)?",
            _say("Very well, thank you. How can I help?"),
        ),
        (
            r"(?:many )?(?:thanks|thank you|thx|cheers|great|perfect|awesome|cool|ok|okay)"
            r"(?:[ ,]+(?:thanks|thank you|so much|a lot|very much|again|great))*",
            _say("You are welcome! Is there anything else?"),
        ),
        (
            r"(?:good ?bye|bye|see you|ciao|good night)(?: bye| later| soon)?",
            _say("Goodbye, and thank you for visiting the shop!"),
        ),
        (_PLEASE + r"(?:who are you|what(?:'s| is) your name|introduce yourself|what are you)", _who),
        (
            _PLEASE
            + r"(?:(?:what are|tell me|show me|repeat|quote) your (?:instructions|system prompt|prompt)"
            r"|what is your (?:system )?prompt|what were you told(?: to do)?)",
            _instructions,
        ),
        (
            _PLEASE
            + r"(?:(?:i need |can you )?help(?: me)?|what can you (?:do|help(?: me)? with)(?: for me)?"
            r"|how can you help(?: me)?|what tools do you have|(?:list|show)(?: me)? your tools"
            r"|which tools (?:can you use|do you have))",
            _abilities,
        ),
        (
            r"(?:what(?:'s| is)|do you (?:know|remember)|tell me|say) my name(?: again)?|who am i",
            _recalling(recall.name),
        ),
        (
            r"(?:what(?:'s| is| are| was| were)|tell me|do you (?:know|remember))"
            r" (my|the|our) ([\w' -]{2,60})",
            _recalling(recall.fact),
        ),
        (
            r"what (?:did i (?:ask|tell) you to remember|do you remember|should you remember)(?: about me)?",
            _recalling(recall.remembered),
        ),
        (
            r"what (?:did i (?:just )?(?:say|ask|write)(?: (?:first|before|last|earlier|just now))*"
            r"|was my (?:first|last|previous) (?:message|question))",
            _recalling(recall.said_before),
        ),
        (
            r"how many (?:messages|questions) (?:have i|did i) (?:sent|send|asked|ask|written)"
            r"(?: you)?(?: so far)?",
            _recalling(recall.how_many),
        ),
        (
            r"(?:what|which) (?:was|is) the last (\w+)"
            r"(?: (?:that )?(?:we|i) (?:spoke|talked|asked|mentioned|discussed)(?: (?:of|about))?)?",
            _recalling(recall.last_spoken_of),
        ),
        (
            _PLEASE + r"(?:say|reply with|respond with|answer with|repeat(?: after me)?|echo)"
            r"(?: (?:only|just|exactly|the words?|the single word|nothing but))*\s*:?\s*"
            r"(?:[\"“](.{1,2000})[\"”]|([A-Z0-9_-]{2,60})|(?<=: )(.{1,2000}))",
            _exactly,
        ),
        (
            _PLEASE + r"(?:what(?:'s| is)|how much is|calculate|compute)? ?"
            r"(-?\d{1,12}) ?(\+|-|\*|x|/|plus|minus|times|divided by) ?(-?\d{1,12})(?: ?=)?",
            _sum,
        ),
        (_PLEASE + r"count(?: from (\d{1,6}))?(?: up)? to (\d{1,6})", _count),
        (
            _PLEASE + r"(?:tell|write|give)(?: me)? a joke.*",
            _say("Why did the parcel blush? Because it saw the shop's tracking page."),
        ),
        (
            _PLEASE + r"write (?:me )?(?:a (?:text|story|poem|essay) (?:of|with) )?"
            r"(?:about |exactly )?(\d{1,5}) words.*",
            _words,
        ),
        (
            _PLEASE + r"(?:tell|write)(?: me)? (?:a|another|some)(?: \w+)? (?:story|poem|tale|essay|text).*",
            _say(stories.STORY),
        ),
    ]
)
