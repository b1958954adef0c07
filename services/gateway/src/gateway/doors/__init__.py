"""The doors: the ways to ask for a run. What a door is: `port`; each has a folder, and its line here."""

from gateway.doors import json, streams
from gateway.doors.port import Entrance

ENTRANCES: tuple[Entrance, ...] = (json.ENTRANCE, streams.ENTRANCE)

__all__ = ["ENTRANCES"]
