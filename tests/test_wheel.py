"""What the wheel holds, and that it works with the sources away.

`.ci/run` goes further: it installs the wheel into an environment of its own
and runs the tests against it, in a folder without the sources.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from tests.support.sources import LAYERS, ROOT

if not (ROOT / "standby").is_dir():
    pytest.skip("the sources are away: this is a test of the wheel", allow_module_level=True)

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The wheel, built as an index would build it, but without a network."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*build, "--directory", str(out)], cwd=ROOT, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return zipfile.Path(built)


@pytest.fixture(scope="module")
def names(wheel: zipfile.Path) -> list[str]:
    return sorted(wheel.root.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.Path, names: list[str]) -> Message:
    (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.joinpath(name).read_text(encoding="utf-8"))


def test_the_wheel_holds_the_four_packages_and_nothing_else(names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    (info,) = (top for top in tops if top.endswith(".dist-info"))
    assert tops == {*LAYERS, info}


@pytest.mark.parametrize("package", LAYERS)
def test_every_package_says_that_it_is_typed(package: str, names: list[str]) -> None:
    assert f"{package}/py.typed" in names


def test_every_module_of_the_checkout_is_in_the_wheel(names: list[str]) -> None:
    roots = [ROOT, *(ROOT / layer for layer in ("actors", "supervision", "combinators"))]
    for package in LAYERS:
        (root,) = (root for root in roots if (root / package / "__init__.py").is_file())
        for file in (root / package).rglob("*.py"):
            assert str(file.relative_to(root)) in names


def test_every_agent_that_comes_with_the_package_is_in_the_wheel(names: list[str]) -> None:
    shipped = ROOT / "actors" / "standby_actors" / "definitions" / "shipped"
    files = [str(file.relative_to(ROOT / "actors")) for file in shipped.glob("*.md")]
    assert len(files) == 9
    assert set(files) <= set(names)


def test_the_wheel_brings_its_licence_its_command_and_its_readme(
    wheel: zipfile.Path, names: list[str], metadata: Message
) -> None:
    (info,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    assert f"{info}/licenses/LICENSE" in names
    assert "standby = standby.cli:main" in wheel.joinpath(info, "entry_points.txt").read_text()
    assert metadata["License-Expression"] == "MIT"
    assert "## Run it" in str(metadata.get_payload())


def test_dependencies_are_named_with_a_lower_bound_and_no_address(metadata: Message) -> None:
    for requirement in metadata.get_all("Requires-Dist", []):
        assert "@" not in requirement
        if not requirement.startswith("standby["):
            assert ">=" in requirement


def test_the_wheel_works_with_the_sources_away(wheel: zipfile.Path, tmp_path: Path) -> None:
    # -I and -S keep out the current folder and the path files of an editable
    # install, which is how the sources would come back; the dependencies are
    # then put behind the wheel by hand.
    site = tmp_path / "site"
    wheel.root.extractall(site)
    script = tmp_path / "script.py"
    script.write_text(
        "import importlib, sys\n"
        "sys.path[:0], sys.path[len(sys.path):] = [sys.argv[1]], [sys.argv[2]]\n"
        "for name in sys.argv[3:]:\n"
        "    print(importlib.import_module(name).__file__)\n"
        "import standby\n"
        "for name in standby.__all__:\n"
        "    getattr(standby, name)\n"
    )
    libraries = sysconfig.get_path("purelib")
    command = [sys.executable, "-I", "-S", str(script), str(site), libraries, *LAYERS]
    run = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert [Path(line).parent for line in run.stdout.split()] == [site / name for name in LAYERS]
