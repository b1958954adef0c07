r"""Lone surrogates in the JSON of strangers: the MCP client's parser refuses a whole document for one escape.

They become \u0000, which no text may hold either: a tool of such a name is left out by itself, and in all
other text U+FFFD takes its place (`contracts.text.cleaned`).
"""

import re

_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_UNFINISHED = rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}\Z"
_ESCAPE = re.compile(rb"(?s:(?P<unfinished>%b)|%b|(?P<lone>%b)|\\.)" % (_UNFINISHED, _PAIR, _LONE))


class LoneSurrogates:
    """Takes a document in pieces, and gives it back as long as it was; an escape may be cut between two."""

    def __init__(self) -> None:
        self._held = b""

    def replaced(self, piece: bytes) -> bytes:
        """What can be told of the document so far; the rest comes with the next piece, or as `rest`."""
        if not self._held and b"\\u" not in piece and not piece.endswith(b"\\"):
            return piece
        piece, self._held = self._held + piece, b""
        return _ESCAPE.sub(self._judged, piece)

    @property
    def rest(self) -> bytes:
        """What an end within an escape has left over."""
        return self._held

    def _judged(self, match: re.Match[bytes]) -> bytes:
        if match["unfinished"] is not None:
            self._held = match[0]
            return b""
        return rb"\u0000" if match["lone"] is not None else match[0]
