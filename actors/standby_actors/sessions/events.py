"""Server-sent events, as they come over a connection that may end anywhere.

An event counts when the empty line behind it has come, and not before: what
is left at the end of a connection is thrown away.  (The SDK's own reader does
the same; but it stops in the middle of its generators, which trio then has to
collect, and it does not tell whether the closing ``[DONE]`` had come.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import define, field

# A carriage return at the very end may be the first half of a line end.
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


@define(eq=False)
class EventReader:
    """Cuts a stream of bytes into the data of its events.

    Examples:
        >>> reader = EventReader()
        >>> list(reader.feed(b"data: one\\n")), list(reader.feed(b"\\ndata: tw"))
        ([], [b'one'])
        >>> list(reader.feed(b"o\\r\\ndata: more\\r\\n\\r\\n: a comment\\n\\n"))
        [b'two\\nmore']
    """

    _rest: bytes = field(init=False, default=b"")
    _data: list[bytes] = field(init=False, factory=list)

    def feed(self, received: bytes) -> Iterator[bytes]:
        """The data of every event that `received` completes."""
        *lines, self._rest = _LINE_END.split(self._rest + received)
        for line in lines:
            if line:
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" "))
            elif self._data:
                data, self._data = b"\n".join(self._data), []
                yield data
