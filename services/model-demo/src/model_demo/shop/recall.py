"""Answers to questions about the conversation itself: names, facts, what was said, ids spoken of."""

import re

from model_demo.shop import entities, words
from model_demo.shop.memory import Memory


def name(memory: Memory, _match: re.Match[str]) -> str:
    """What the person is called."""
    if memory.name is None:
        return "You have not told me your name yet."
    return f"Your name is {memory.name}."


def fact(memory: Memory, match: re.Match[str]) -> str | None:
    """Something that was told: "my colour is blue". None where it was not."""
    owner, subject = match[1].lower(), match[2]
    wanted = " ".join(words.stems(subject))
    value = memory.facts.get(wanted)
    if value is None:
        return None
    whose = {"my": "Your", "our": "Your", "the": "The"}[owner]
    return f"{whose} {subject.strip()} is {value}."


def remembered(memory: Memory, _match: re.Match[str]) -> str:
    """What was to be remembered."""
    if not memory.remembered:
        return "You have not asked me to remember anything yet."
    return f"You asked me to remember this: {'; '.join(memory.remembered)}."


def said_before(memory: Memory, match: re.Match[str]) -> str:
    """The first or the last message before this one."""
    earlier = memory.said[:-1]
    if not earlier:
        return "This is your first message in our conversation."
    first = "first" in match[0].lower()
    quoted = earlier[0] if first else earlier[-1]
    return f'Your {"first" if first else "last"} message was: "{quoted}"'


def how_many(memory: Memory, _match: re.Match[str]) -> str:
    """The number of messages."""
    count = len(memory.said)
    return f"You have sent {count} message{'' if count == 1 else 's'} so far, this one included."


def last_spoken_of(memory: Memory, match: re.Match[str]) -> str:
    """The last id of a kind."""
    noun = words.stem(match[1])
    for entity in memory.ids:
        if entities.is_short_for(entities.prefix(entity), noun):
            return f"The last {match[1].lower()} we spoke of was {entity}."
    return f"We have not spoken of any {match[1].lower()} yet."
