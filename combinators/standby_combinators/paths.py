"""Claims of paths: a folder and what is in it cannot be two writers' at the same time."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import trio
from attrs import define, field

from .claims import ClaimRefused, Claims


def _real(root: str | Path) -> Path:
    return Path(os.path.realpath(root))


@define(eq=False)
class PathClaims(Claims):
    """Leases on files and folders below one folder: the cheap way to keep writers apart.

    A claim of ``src`` is in the way of one of ``src/a.py``, and the reverse.  A path is
    kept as it is from `root`, links followed, so that one place has one name; it need not be
    there yet.  What leads out of `root` is refused.  Nothing hinders who does not ask:
    a writer that is not to be trusted needs a copy.

    Args:
        root: the folder.
        keys, max_each, seconds, clock: as :class:`Claims` has them; whatever is in one of
            `keys` can be claimed.
        ignore_case: whether ``A`` and ``a`` are one; None for what `root` does.

    Examples:
        >>> claims = PathClaims("/project", clock=lambda: 0.0)
        >>> claims.take("scout@1", "src/../src/")
        Claim(key='src', state='held', by='scout@1')
        >>> claims.take("scout@2", "src/a.py").reason
        "'src/a.py' is a part of 'src', which is held by scout@1; anything else can be claimed"
        >>> claims.take("scout@2", "../other").reason
        "'../other' is not in /project"
    """

    root: Path = field(default=Path(), converter=_real)
    # Again, so that the folder is what stands first.
    keys: Sequence[str] | None = field(default=None, kw_only=True)
    max_each: int | None = field(default=None, kw_only=True)
    seconds: float | None = field(default=None, kw_only=True)
    clock: Callable[[], float] = field(default=trio.current_time, kw_only=True)
    ignore_case: bool | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.ignore_case is None:
            self.ignore_case = _ignores_case(self.root)
        if self.keys is not None:
            spelled: list[str] = []
            for key in self.keys:
                one = self._spelled(key)
                if isinstance(one, ClaimRefused):
                    raise ValueError(one.reason)
                spelled.append(one)
            self.keys = spelled

    def _spelled(self, key: str) -> str | ClaimRefused:
        written = key.strip()
        if not written:
            return ClaimRefused("a blank path cannot be claimed; '.' is all of it")
        if "\0" in written:
            return ClaimRefused(f"{written!r} is no path")
        real = Path(os.path.realpath(self.root / written))
        if not real.is_relative_to(self.root):
            return ClaimRefused(f"{written!r} is not in {self.root}")
        path = real.relative_to(self.root).as_posix()
        # Where case does not count, neither does how an accent is composed.
        return unicodedata.normalize("NFC", path).casefold() if self.ignore_case else path

    def _over(self, key: str) -> Iterator[str]:
        for other in list(self._leases):
            if self._overlap(key, other) and self._lease(other) is not None:
                yield other

    def _overlap(self, one: str, other: str) -> bool:
        return self._contains(one, other) or self._contains(other, one)

    def _contains(self, one: str, other: str) -> bool:
        return one in (".", other) or other.startswith(f"{one}/")

    def _may_claim(self, key: str) -> bool:
        return self.keys is None or any(self._contains(each, key) for each in self.keys)


def _ignores_case(root: Path) -> bool:
    """Whether the file system of `root` takes ``A`` for ``a``, as far as its name can tell."""
    swapped = Path(root.parent, root.name.swapcase())
    try:
        return swapped != root and swapped.samefile(root)
    except OSError:
        return False
