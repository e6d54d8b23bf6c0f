"""What a live agent is called, and what somebody may mean by a text."""

from __future__ import annotations

import msgspec

LONGEST = 400
"""Characters of a text that is looked up."""


class AgentKey(msgspec.Struct, frozen=True, order=True):
    """Which life of which agent: an address that no other agent ever gets."""

    workspace: str
    """The path of its folder, resolved."""
    run: str
    name: str
    """What it is called in its run, over all its lives."""
    incarnation: int = 1

    def __str__(self) -> str:
        return f"{self.run}/{self.name}"


class Meant(msgspec.Struct, frozen=True):
    """The parts of a text such as "scout#2", "nightly/scout#2", "/src/app:nightly/scout#2"."""

    name: str
    run: str = ""
    workspace: str = ""


def meant(text: str) -> Meant:
    """The parts of `text`; those that it does not name are empty.

    Examples:
        >>> meant("scout#2")
        Meant(name='scout#2', run='', workspace='')
        >>> meant("/src/app:nightly/scout#2")
        Meant(name='scout#2', run='nightly', workspace='/src/app')

    Raises:
        ValueError: it is empty, or too long to be one.
    """
    if not text or len(text) > LONGEST:
        raise ValueError(f"an agent is named by 1 to {LONGEST} characters, not {len(text)}")
    workspace, _, rest = text.rpartition(":")
    run, _, name = rest.rpartition("/")
    return Meant(name, run, workspace)
