"""One line that is being typed: what each key makes of it; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from .keys import Key

LIMIT = 10_000
"""Letters of a line; what is typed beyond is left out."""


@frozen
class Line:
    """What stands in the line, and where the next letter goes."""

    text: str = ""
    cursor: int = 0

    def typed(self, text: str) -> Line:
        """`text` at the cursor, as far as there is room."""
        text = text[: max(0, LIMIT - len(self.text))]
        whole = self.text[: self.cursor] + text + self.text[self.cursor :]
        return Line(whole, self.cursor + len(text))

    def pressed(self, key: Key) -> Line:
        """The line after `key`; the same line for a key that does nothing to it.

        Examples:
            >>> Line("/stop all", 9).pressed(Key("ctrl+w"))
            Line(text='/stop ', cursor=6)
        """
        text, at = self.text, self.cursor
        match key.name:
            case "text":
                return self.typed(key.text)
            case "backspace":
                return Line(text[: max(0, at - 1)] + text[at:], max(0, at - 1))
            case "del":
                return Line(text[:at] + text[at + 1 :], at)
            case "left":
                return evolve(self, cursor=max(0, at - 1))
            case "right":
                return evolve(self, cursor=min(len(text), at + 1))
            case "home":
                return evolve(self, cursor=0)
            case "end":
                return evolve(self, cursor=len(text))
            case "ctrl+u":
                return Line(text[at:], 0)
            case "ctrl+k":
                return Line(text[:at], at)
            case "ctrl+w":
                kept = text[:at].rstrip()
                kept = kept[: kept.rfind(" ") + 1]
                return Line(kept + text[at:], len(kept))
            case _:
                return self

    def completed(self, words: Iterable[str]) -> Line:
        """With the word at the cursor completed, as far as all that begin with it agree.

        Examples:
            >>> Line("/stop sc", 8).completed(["scout#1"]).text
            '/stop scout#1 '
            >>> Line("/st", 3).completed(["/stop", "/steer"]).text
            '/st'
        """
        start = self.text.rfind(" ", 0, self.cursor) + 1
        begun = self.text[start : self.cursor]
        fitting = [word for word in words if word.casefold().startswith(begun.casefold())]
        if not begun or not fitting:
            return self
        common = _common(fitting) + (" " if len(fitting) == 1 else "")
        whole = self.text[:start] + common + self.text[self.cursor :].removeprefix(" ")
        return Line(whole, start + len(common))


def _common(words: Sequence[str]) -> str:
    """How far all of `words` begin alike."""
    first, *rest = words
    length = len(first)
    for word in rest:
        same = next((n for n, (a, b) in enumerate(zip(first, word, strict=False)) if a != b), None)
        length = min(length, len(word), len(first) if same is None else same)
    return first[:length]


class History:
    """The lines that were entered, for the keys up and down."""

    def __init__(self, most: int = 100) -> None:
        self._lines: list[str] = []
        self._most = most
        self._at = 0
        self._begun = ""

    def entered(self, text: str) -> None:
        """Keep a line, unless it is the one before again."""
        if text and self._lines[-1:] != [text]:
            self._lines = [*self._lines, text][-self._most :]
        self._at = len(self._lines)

    def step(self, line: Line, back: bool) -> Line:
        """The line before, or after, the one that is shown; what was begun comes last."""
        to = self._at - 1 if back else self._at + 1
        if not 0 <= to <= len(self._lines):
            return line
        if self._at == len(self._lines):
            self._begun = line.text
        self._at = to
        text = self._begun if to == len(self._lines) else self._lines[to]
        return Line(text, len(text))
