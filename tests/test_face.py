"""What users import is a promise; these tests keep it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import standby

HEAVY = [
    "asyncio",
    "cyclopts",
    "jsonschema",
    "matplotlib",
    "mcp",
    "numpy",
    "openai",
    "pathspec",
    "rich",
    "xllamacpp",
    "yaml",
]
"""What `import standby` leaves alone: each is imported where it is used."""


def test_the_face_exports_what_it_names() -> None:
    for name in standby.__all__:
        getattr(standby, name)  # some are imported when they are first used
    tools = {"Any", "TYPE_CHECKING", "annotations", "importlib"}
    public = {name for name in vars(standby) if not name.startswith("_")} - tools
    exported = {name for name in public if not hasattr(vars(standby)[name], "__path__")}
    # A module of the face that somebody has imported is an attribute of it too.
    submodules = {name for name in exported if f"standby.{name}" in sys.modules}
    assert exported - submodules == set(standby.__all__)
    assert list(standby.__all__) == sorted(standby.__all__)


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'sapwn'"):
        standby.sapwn  # noqa: B018 - looking it up is what is tested


def test_errors_speak_of_the_face() -> None:
    for name in standby.__all__:
        thing = getattr(standby, name)
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert thing.__module__ == "standby"


@pytest.mark.real
def test_importing_the_face_imports_nothing_heavy() -> None:
    code = "import sys, standby; print(*sorted(set(sys.argv[1:]) & set(sys.modules)))"
    command = [sys.executable, "-c", code, *HEAVY]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
