"""The doors: the ways to ask for a run. What a door is: `port`; each has a folder, and its line here.

`words_at` says how refusals are worded at an address, whether there is anything or not.
"""

from gateway.doors import json, openai, streams
from gateway.doors.port import Entrance, Page, Wording
from gateway.problems import Words, head_of

ENTRANCES: tuple[Entrance, ...] = (json.ENTRANCE, streams.ENTRANCE, openai.ENTRANCE)
PAGES: tuple[Page, ...] = openai.PAGES
_WORDINGS: tuple[Wording, ...] = (openai.WORDING,)

__all__ = ["ENTRANCES", "PAGES", "words_at"]


def words_at(path: str) -> Words:
    """The words of the door whose prefix the path has; else our own."""
    return next((each.words for each in _WORDINGS if path.startswith(each.prefix)), head_of)
