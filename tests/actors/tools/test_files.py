"""The tools for files: what they show, what they change, and that they stay inside."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from standby_actors.tools import files
from standby_actors.tools.approvals import approvals_of
from standby_actors.tools.calls import CallHistory, run_calls
from standby_actors.tools.confined import Folder, NotAllowed
from standby_actors.tools.files import FILE_TOOLS, file_tools
from standby_actors.tools.tool import ToolOutput
from tests.actors.tools.calling import answer, call


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with some files, and secrets beside it."""
    folder = tmp_path / "root"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("import os\n\n\ndef first():\n    return 1\n")
    (folder / "src" / "b.txt").write_text("one\ntwo\none\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("token")
    (folder / ".standby").mkdir()
    (folder / "link.py").symlink_to("src/a.py")
    (folder / "out").symlink_to(tmp_path)
    (folder / "up").symlink_to("../secret.txt")
    (folder / "round").symlink_to("round")
    (folder / "git").symlink_to(".git")
    (folder / "bin").write_bytes(b"\x7fELF\0\0\0")
    os.mkfifo(folder / "pipe")
    (tmp_path / "secret.txt").write_text("canary-secret")
    return folder


async def use(root: Path, name: str, /, **arguments: Any) -> ToolOutput:
    """One call of a tool for `root`."""
    tools = file_tools(root)
    return (await answer(call(name, **arguments), *tools, approvals=approvals_of("allow"))).output


OUTSIDE = [
    "../secret.txt",
    "src/../../secret.txt",
    "/etc/passwd",
    "up",
    "out/secret.txt",
    "out",
    "~/x",
    "round",
    "round/x",
    "a\0b",
    "..",
    "x" * 5000,
    "src/" * 2000 + "x",
    "../root/src/a.py",
]
PROTECTED = [".git/config", ".GIT/config", "src/../.git/config", ".git", "git/config", ".standby/x"]


@pytest.mark.parametrize("path", [*OUTSIDE, *PROTECTED])
@pytest.mark.parametrize("name", ["read", "ls", "edit", "write", "grep"])
async def test_no_tool_leaves_the_folder(root: Path, name: str, path: str) -> None:
    more: dict[str, Any] = {
        "edit": {"old_text": "canary", "new_text": "x"},
        "write": {"content": "x"},
        "grep": {"pattern": "canary|token"},
    }.get(name, {})
    before = snapshot(root.parent)
    output = await use(root, name, path=path, **more)
    assert output.is_error
    assert "canary-secret" not in output.text
    assert snapshot(root.parent) == before


def snapshot(folder: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            found[str(path)] = path.read_bytes() if path.is_file() else b""
    return found


async def test_an_absolute_path_below_the_folder_is_taken(root: Path) -> None:
    assert (await use(root, "read", path=str(root / "src" / "b.txt"))).text == "one\ntwo\none"
    assert (await use(root, "read", path=f"{root}2/x")).is_error


async def test_links_inside_are_followed(root: Path) -> None:
    assert (await use(root, "read", path="link.py")).text.startswith("import os")
    await use(root, "write", path="link.py", content="new")
    assert (root / "link.py").is_symlink()
    assert (root / "src" / "a.py").read_text() == "new"


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(root: Path) -> None:
    """Somebody swaps a folder and a link to the outside, as fast as they can."""
    (root.parent / "elsewhere").mkdir()
    (root.parent / "elsewhere" / "f").write_text("canary-secret")
    (root / "swap").mkdir()
    (root / "swap" / "f").write_text("inside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "swap", root / "kept")
            os.symlink("../elsewhere", root / "swap")
            os.unlink(root / "swap")
            os.rename(root / "kept", root / "swap")

    thread = threading.Thread(target=swap)
    thread.start()
    folder = Folder(root)
    seen: set[str] = set()
    try:
        for _ in range(2000):
            try:
                with folder.file("swap/f") as (opened, _found, _real):
                    seen.add(os.read(opened, 100).decode())
            except NotAllowed:
                seen.add("refused")
            except OSError:
                seen.add("missing")
    finally:
        stop.set()
        thread.join()
    assert "canary-secret" not in seen
    assert "inside" in seen


async def test_a_missing_folder_is_refused() -> None:
    with pytest.raises(NotADirectoryError):
        file_tools("/nowhere/at/all")
    with pytest.raises(ValueError, match="do you mean read"):
        file_tools("/", ["raed"])


async def test_tools_say_whether_they_change_something(root: Path) -> None:
    tools = {each.name: each for each in file_tools(root)}
    assert [*tools] == [*FILE_TOOLS]
    assert [name for name, each in tools.items() if each.read_only] == [
        "read",
        "grep",
        "find",
        "ls",
    ]
    assert [name for name, each in tools.items() if each.approval == "ask"] == ["shell"]
    assert tools["read"].parameters["required"] == ["path"]
    assert tools["edit"].parameters["properties"]["path"]["description"] == (
        "relative to the working directory"
    )


# ---- read, ls


async def test_a_range_of_lines_is_read_and_says_how_to_go_on(root: Path) -> None:
    (root / "long").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    first = (await use(root, "read", path="long")).text.splitlines()
    assert first[0] == "line 1"
    assert first[-1] == "[lines 1 to 2,000 of long, 48,893 bytes; read on with first_line=2001]"
    last = await use(root, "read", path="long", first_line=4999)
    assert last.text == "line 4999\nline 5000"
    assert (
        "5,000 lines; there is no line 6,000"
        in (await use(root, "read", path="long", first_line=6000)).text
    )


async def test_a_huge_line_is_cut_and_says_so(root: Path) -> None:
    (root / "wide").write_text("x" * 3_000_000 + "\nnext\n")
    lines = (await use(root, "read", path="wide")).text.splitlines()
    assert lines == ["x" * 2000 + "[… 2,998,001 more characters of this line …]", "next"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param("bin", "binary: 7 bytes", id="binary"),
        pytest.param("pipe", "no regular file", id="a pipe"),
        pytest.param("nothing", "There is no nothing", id="missing"),
        pytest.param("src", "Is a directory", id="a folder"),
        pytest.param("src/b.txt/x", "Not a directory", id="below a file"),
        pytest.param("", "Is a directory", id="empty"),
    ],
)
async def test_what_cannot_be_read_says_why(root: Path, path: str, says: str) -> None:
    output = await use(root, "read", path=path)
    assert output.is_error
    assert says in output.text


async def test_an_empty_file_and_other_encodings_are_told(root: Path) -> None:
    (root / "empty").write_text("")
    (root / "latin").write_bytes("gr\u00fcn\n".encode("latin-1"))
    assert (await use(root, "read", path="empty")).text == "empty is empty"
    latin = (await use(root, "read", path="latin")).text
    assert latin == "gr\ufffdn\n[what is not UTF-8 is shown as \ufffd]"


async def test_a_picture_is_shown(root: Path) -> None:
    (root / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 100)
    output = await use(root, "read", path="p.png")
    assert [each.media_type for each in output.attachments] == ["image/png"]


async def test_a_folder_is_listed(root: Path) -> None:
    listed = (await use(root, "ls")).text.splitlines()
    assert "src/" in listed
    assert "link.py -> src/a.py" in listed
    assert "bin  7 bytes" in listed
    for n in range(600):
        (root / "src" / f"f{n:03}").write_text("")
    many = (await use(root, "ls", path="src")).text.splitlines()
    assert many[-1] == "[… 102 more of 602 entries are not shown …]"


# ---- grep, find


@pytest.mark.real
async def test_lines_are_found_and_gitignore_is_respected(root: Path) -> None:
    (root / ".gitignore").write_text("*.log\nbuild/\n!keep.log\n")
    (root / "build").mkdir()
    for name in ("x.log", "keep.log", "build/y.txt", "src/deep.log"):
        (root / name).write_text("needle\n")
    (root / "src" / ".gitignore").write_text("!deep.log\n")
    output = await use(root, "grep", pattern="NEEDLE", ignore_case=True)
    assert output.text.splitlines() == [
        "keep.log:1: needle",
        "src/deep.log:1: needle",
        "[2 files were not searched: binary, too large or unreadable]",
    ]
    found = (await use(root, "find", pattern="*.log")).text.splitlines()
    assert found == ["keep.log", "src/deep.log"]
    below = await use(root, "grep", pattern="needle", path="src")
    assert below.text.splitlines()[0] == "src/deep.log:1: needle"


@pytest.mark.real
async def test_a_search_can_be_narrowed(root: Path) -> None:
    one = await use(root, "grep", pattern="o(n|m)e", path="src/b.txt")
    assert one.text == "src/b.txt:1: one\nsrc/b.txt:3: one"
    assert (await use(root, "grep", pattern="one", glob="*.py", path="src")).text == (
        "no line fits, in 1 files"
    )
    assert "src/a.py:4" in (await use(root, "grep", pattern="first()", literal=True)).text
    assert (await use(root, "find", pattern="src/**/*.py")).text == "src/a.py"
    assert (await use(root, "find", pattern="src")).text == "src/"
    assert "nothing is called" in (await use(root, "find", pattern="*.zip")).text


@pytest.mark.real
async def test_a_search_says_what_is_wrong(root: Path) -> None:
    wrong = await use(root, "grep", pattern="(")
    assert wrong.is_error
    assert "no regular expression" in wrong.text
    assert "There is no nowhere" in (await use(root, "grep", pattern="x", path="nowhere")).text


@pytest.mark.real
async def test_a_pattern_that_takes_for_ever_is_stopped_and_blocks_nobody(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_SEARCH_SECONDS", 1.0)
    (root / "evil").write_text("a" * 60 + "!")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.01)
            ticks += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        output = await use(root, "grep", pattern="(a+)+$", path="evil")
        nursery.cancel_scope.cancel()
    assert "took longer than 1 s" in output.text
    assert ticks > 10


# ---- edit, write


async def test_a_piece_that_occurs_once_is_replaced_and_the_mode_stays(root: Path) -> None:
    path = root / "src" / "a.py"
    path.chmod(0o750)
    output = await use(root, "edit", path="src/a.py", old_text="return 1", new_text="return 2")
    assert output.text == "src/a.py changed in 1 place, from line 5"
    assert path.read_text().endswith("return 2\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert sorted(os.listdir(root / "src")) == ["a.py", "b.txt"]


@pytest.mark.parametrize(
    ("path", "old", "new", "says"),
    [
        pytest.param("src/b.txt", "one", "1", "occurs 2 times in src/b.txt, in lines 1, 3", id="2"),
        pytest.param("src/b.txt", "", "1", "old_text is empty", id="empty"),
        pytest.param("src/b.txt", "two", "two", "the same", id="same"),
        pytest.param("src/a.py", "return l", "x", "The nearest lines are:\n5: return 1", id="near"),
        pytest.param("src/a.py", "def first():\n  return", "x", "stands in line 4", id="spaces"),
        pytest.param("src/a.py", "zzzzzzzz", "x", "Nothing looks like it", id="nothing like it"),
        pytest.param("bin", "ELF", "x", "binary", id="binary"),
        pytest.param("new", "a", "b", "There is no new", id="missing"),
    ],
)
async def test_an_edit_that_is_not_clear_changes_nothing(
    root: Path, path: str, old: str, new: str, says: str
) -> None:
    before = snapshot(root)
    output = await use(root, "edit", path=path, old_text=old, new_text=new)
    assert output.is_error
    assert says in output.text
    assert snapshot(root) == before


async def test_every_place_is_changed_when_asked(root: Path) -> None:
    await use(root, "edit", path="src/b.txt", old_text="one", new_text="1", every=True)
    assert (root / "src" / "b.txt").read_text() == "1\ntwo\n1\n"


async def test_bytes_that_are_no_text_and_line_ends_survive_an_edit(root: Path) -> None:
    (root / "odd").write_bytes(b"a\xff\r\nb\r\nc\r\n")
    await use(root, "edit", path="odd", old_text="b\nc", new_text="x\ny")
    assert (root / "odd").read_bytes() == b"a\xff\r\nx\r\ny\r\n"


async def test_a_file_that_changed_meanwhile_is_not_overwritten(root: Path) -> None:
    folder = Folder(root)
    with folder.file("src/b.txt") as (_, found, _real):
        pass
    (root / "src" / "b.txt").write_text("somebody else\n")
    with pytest.raises(NotAllowed, match="changed meanwhile"):
        folder.write("src/b.txt", b"ours", unless_changed=found)
    assert (root / "src" / "b.txt").read_text() == "somebody else\n"


async def test_a_new_file_is_written_with_its_folders(root: Path) -> None:
    output = await use(root, "write", path="new/deep/x.txt", content="h\u00e9")
    assert output.text == "new/deep/x.txt written: 3 bytes"
    assert (root / "new" / "deep" / "x.txt").read_text() == "h\u00e9"


@pytest.mark.parametrize("path", ["src", "pipe", "src/b.txt/x", "", "."])
async def test_what_is_no_file_is_not_overwritten(root: Path, path: str) -> None:
    before = snapshot(root)
    assert (await use(root, "write", path=path, content="x")).is_error
    assert snapshot(root) == before


async def test_a_read_only_file_is_left_alone(root: Path) -> None:
    (root / "src" / "b.txt").chmod(0o444)
    assert "read-only" in (await use(root, "write", path="src/b.txt", content="x")).text


async def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    output = await use(root, "write", path="src/b.txt", content="x")
    assert output.is_error
    assert "No space left" in output.text
    assert sorted(os.listdir(root / "src")) == ["a.py", "b.txt"]
    assert (root / "src" / "b.txt").read_text() == "one\ntwo\none\n"


async def test_edits_of_one_message_are_made_in_order(root: Path) -> None:
    tools = file_tools(root)
    calls = [
        call("edit", path="src/a.py", old_text=f"return {n}", new_text=f"return {n + 1}")
        for n in range(1, 9)
    ]
    answers = await run_calls(calls, tools, CallHistory())
    assert not any(each.output.is_error for each in answers.answered)
    assert (root / "src" / "a.py").read_text().endswith("return 9\n")


# ---- shell


@pytest.mark.real
async def test_a_command_runs_in_the_folder_and_says_how_it_ended(root: Path) -> None:
    assert (await use(root, "shell", command="pwd; echo err >&2; echo out")).text == (
        f"{root}\nerr\nout\n"
    )
    failed = await use(root, "shell", command="echo no; exit 3")
    assert (failed.is_error, failed.text) == (True, "no\n\n[exit code 3]")
    assert (await use(root, "shell", command="true")).text == "done; it wrote nothing"


@pytest.mark.real
async def test_a_command_is_told_no_secret(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-canary")
    assert "sk-canary" not in (await use(root, "shell", command="env")).text


@pytest.mark.real
async def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(root: Path) -> None:
    seconds = f"600.{os.getpid()}"
    command = f"echo started; setsid sleep {seconds} & nohup sleep {seconds}"
    output = await use(root, "shell", command=command, seconds=1)
    assert "started\n\n[it took longer than 1 s and was ended]" in output.text
    assert seconds not in running()


def running() -> str:
    """The command lines of all processes."""
    lines: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_text())
        except OSError:
            continue  # it has ended meanwhile
    return "\n".join(lines)


@pytest.mark.real
async def test_of_very_much_output_the_end_is_shown(root: Path) -> None:
    output = await use(root, "shell", command="seq 1 200000")
    assert output.text.startswith("[… 1,248,")
    assert output.text.endswith("199999\n200000\n")
