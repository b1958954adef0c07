"""As much of a terminal as the client uses: lines, a cursor, and what has scrolled off the top."""

import re
import unicodedata

_SEQUENCE = re.compile(r"\x1b\[([?>=]?)([\d;]*)([A-Za-z])|\x1b([=>78()][AB0]?)")


class Emulator:
    """Feed it what a program writes; `text` is all one can scroll back to, and the screen."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns = columns
        self._rows = rows
        self._lines: list[list[str]] = [[]]
        self._top = 0
        self._row = 0  # within the screen
        self._column = 0
        self._left = ""
        self.odd: list[str] = []
        """What a well-behaved program would not send."""

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self._lines)

    def feed(self, text: str) -> None:
        text = self._left + text
        place = 0
        while place < len(text):
            if text[place] == "\x1b":
                found = _SEQUENCE.match(text, place)
                if found is None:
                    if len(text) - place < 12:
                        break  # the rest is still to come
                    self.odd.append(text[place : place + 12])
                    place += 1
                    continue
                self._do(found)
                place = found.end()
            else:
                self._put(text[place])
                place += 1
        self._left = text[place:]

    def _do(self, found: re.Match[str]) -> None:
        private, numbers, letter, _ = found.groups()
        if private or letter is None:
            return
        count = int(numbers.split(";")[0] or 1) if numbers else 1
        line = self._line()
        match letter:
            case "A":
                self._row = max(0, self._row - count)
            case "B":
                self._row = min(self._rows - 1, self._row + count)
            case "C":
                self._column = min(self._columns - 1, self._column + count)
            case "D":
                self._column = max(0, self._column - count)
            case "K":
                del line[0 if numbers == "2" else self._column :]
            case "J":
                del line[self._column :]
                del self._lines[self._top + self._row + 1 :]
            case "m" | "h" | "l" | "n" | "c" | "q" | "t":
                pass
            case _:
                self.odd.append(found.group())

    def _put(self, character: str) -> None:
        match character:
            case "\n":
                self._down()
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\a":
                self.odd.append(character)
            case _:
                if unicodedata.category(character) == "Cc":
                    self.odd.append(character)
                    return
                if self._column >= self._columns:
                    self._column = 0
                    self._down()
                line = self._line()
                line += " " * (self._column + 1 - len(line))
                line[self._column] = character
                self._column += 1

    def _down(self) -> None:
        if self._row == self._rows - 1:
            self._top += 1
        else:
            self._row += 1
        self._line()

    def _line(self) -> list[str]:
        while len(self._lines) <= self._top + self._row:
            self._lines.append([])
        return self._lines[self._top + self._row]
