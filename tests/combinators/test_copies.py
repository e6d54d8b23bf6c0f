"""Writers side by side, each in a copy: what fits is landed in order, and nothing is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trio

from standby import Agent, Check, Signal, stop_switch
from standby_actors.subagent import reset_ids
from standby_combinators import (
    CannotCopy,
    Chain,
    FanOut,
    GitFailed,
    InCopy,
    Loop,
    fan_out,
    in_copy,
    open_copies,
    open_fan_out,
)
from standby_combinators.durable import try_lock
from standby_combinators.git import find_repository, one_writer
from standby_combinators.patches import Landed, Patch

from .repositories import POEM, Repo, break_git, edit, make_repo

pytestmark = pytest.mark.real


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository, whose copies are made beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Whatever the user of this machine has set is none of these tests' business.
    monkeypatch.setenv("HOME", str(tmp_path))
    return make_repo(tmp_path / "repo")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Where copies are made."""
    return tmp_path / "cache" / "standby" / "copies"


def states(patches: tuple[object, ...]) -> list[str]:
    return [str(getattr(each, "state", "")) for each in patches]


def shell(command: str, folder: Path) -> None:
    """What a member of no manners does in its copy."""
    who = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@localhost"}
    who |= {"GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@localhost"}
    subprocess.run(["sh", "-c", command], cwd=folder, env=os.environ | who, check=True)


# Composition.


async def test_branches_write_side_by_side_and_their_changes_land_in_order(
    repo: Repo, house: Path
) -> None:
    seen: list[str] = []

    async def writer(task: str, folder: Path = Path()) -> str:
        seen.append(str(folder))
        # Nobody sees what the others do.
        assert (folder / "poem.txt").read_text() == POEM
        return await edit(task, folder)

    tasks = ["poem.txt: line 3 -> three", "poem.txt: line 12 -> twelve", "new.txt = fresh"]
    done = await fan_out(writer, tasks, copies=repo.path)
    assert done.ok
    assert done.landed
    assert states(done.patches) == ["landed"] * 3
    assert [each.name for each in done.patches] == ["0-writer", "1-writer", "2-writer"]
    assert len(set(seen)) == 3
    assert all(folder.startswith(str(house)) for folder in seen)
    assert repo.read("poem.txt") == POEM.replace("line 3\n", "three\n").replace(
        "line 12\n", "twelve\n"
    )
    # In no index and no commit: that is for whoever reads it.
    assert repo.changes == [" M poem.txt", "?? new.txt"]
    assert len(repo.patches) == 3
    repo.check(house)


async def test_what_does_not_fit_is_refused_in_gits_words_and_the_tree_stays(
    repo: Repo, house: Path
) -> None:
    tasks = [
        "poem.txt: line 3 -> three",
        "poem.txt: line 3 -> drei\nnew.txt = lost?",
        "other.txt = later",
    ]
    done = await fan_out(edit, tasks, copies=repo.path)
    assert done.ok
    assert not done.landed
    assert states(done.patches) == ["landed", "refused", "kept"]
    refused, kept = done.patches[1:]
    assert refused.conflicts == ("poem.txt",)
    assert refused.files == ("new.txt", "poem.txt")
    assert "with conflicts" in refused.reason
    assert kept.reason == "1-edit was refused before it"
    assert repo.changes == [" M poem.txt"]
    assert "three" in repo.read("poem.txt")
    # Nothing is lost: what was refused can still be applied by hand, where it fits.
    repo.git("checkout", "--quiet", "--", "poem.txt")
    repo.git("apply", refused.path)
    assert repo.read("new.txt") == "lost?\n"
    repo.check(house)


async def test_going_on_lands_what_comes_after_a_refusal(repo: Repo, house: Path) -> None:
    tasks = ["poem.txt: line 3 -> three", "poem.txt: line 3 -> drei", "other.txt = later"]
    async with open_copies(repo.path, go_on=True) as copies:
        done = await fan_out(edit, tasks, copies=copies)
    assert states(done.patches) == ["landed", "refused", "landed"]
    assert copies.patches == done.patches
    repo.check(house)


async def test_every_kind_of_change_is_taken_and_landed(repo: Repo, house: Path) -> None:
    blob = bytes(range(256)) * 40
    repo.write("old name.txt", POEM * 3)
    repo.write("gone.txt", "bye\n")
    repo.write("run.sh", "#!/bin/sh\n")
    repo.write("crlf.txt", "one\r\ntwo\r\n")
    repo.write("blob.bin", blob)
    repo.commit()

    async def writer(task: str, folder: Path = Path()) -> str:
        if task == "first":
            (folder / "old name.txt").rename(folder / "new\tname ü.txt")
            (folder / "gone.txt").unlink()
            (folder / "run.sh").chmod(0o755)
            (folder / "blob.bin").write_bytes(blob[::-1])
            (folder / "link").symlink_to("poem.txt")
            (folder / "crlf.txt").write_bytes(b"one\r\n2\r\n")
        else:
            (folder / "fresh.bin").write_bytes(blob)
            (folder / "empty").touch()
            (folder / "trace.log").write_text("ignored")
            (folder / "build").mkdir()
            (folder / "build" / "out").write_text("ignored")
            (folder / "no end").write_text("no newline at the end")
        return "done"

    done = await fan_out(writer, ["first", "second"], copies=repo.path)
    assert done.landed, done.patches
    assert (repo.path / "new\tname ü.txt").read_text() == POEM * 3
    assert not (repo.path / "old name.txt").exists()
    assert not (repo.path / "gone.txt").exists()
    assert os.access(repo.path / "run.sh", os.X_OK)
    assert (repo.path / "blob.bin").read_bytes() == blob[::-1]
    assert (repo.path / "fresh.bin").read_bytes() == blob
    assert os.readlink(repo.path / "link") == "poem.txt"
    assert (repo.path / "crlf.txt").read_bytes() == b"one\r\n2\r\n"
    assert (repo.path / "empty").read_bytes() == b""
    assert repo.read("no end") == "no newline at the end"
    assert not (repo.path / "trace.log").exists()
    assert not (repo.path / "build").exists()
    repo.check(house)


async def test_what_is_in_no_commit_is_in_every_copy_and_can_be_refused(
    repo: Repo, house: Path
) -> None:
    repo.write("poem.txt", POEM.replace("line 1\n", "mine\n"))
    repo.write("unknown.txt", "mine too\n")
    repo.git("add", "poem.txt")
    repo.write("src/a.py", "A = 2\n")
    before, index = repo.changes, (repo.path / ".git" / "index").read_bytes()
    with pytest.raises(CannotCopy, match=r"poem.txt, src/a.py, unknown.txt. Commit first"):
        async with open_copies(repo.path, uncommitted="refuse"):
            pytest.fail("there are changes")
    task = "unknown.txt: mine too -> ours\nsrc/a.py: A = 2 -> A = 3"
    done = await fan_out(edit, [task], copies=repo.path)
    assert done.landed, done.patches
    assert repo.read("unknown.txt") == "ours\n"
    assert repo.read("src/a.py") == "A = 3\n"
    assert repo.read("poem.txt").startswith("mine\n")
    # What was staged is staged, and nothing else.
    assert repo.changes == before
    assert (repo.path / ".git" / "index").read_bytes() == index
    assert repo.git("log", "--oneline", "--all").count("\n") == 1
    repo.check(house)


@pytest.mark.parametrize(
    "settings",
    [
        {
            "diff.noprefix": "true",
            "diff.mnemonicPrefix": "true",
            "diff.external": "false",
            "diff.renames": "copies",
            "color.ui": "always",
            "apply.whitespace": "error",
            "core.whitespace": "tab-in-indent",
            "core.quotePath": "false",
            "core.pager": "false",
            "status.showUntrackedFiles": "no",
            "commit.gpgSign": "true",
            "submodule.recurse": "true",
        },
        {"core.autocrlf": "true"},
        {"core.autocrlf": "input", "core.safecrlf": "true", "index.version": "4"},
        {"core.fileMode": "false", "core.splitIndex": "true", "core.untrackedCache": "true"},
    ],
    ids=["diffs", "autocrlf", "safecrlf", "index"],
)
async def test_whatever_the_user_has_set_for_git_changes_are_taken_and_landed(
    repo: Repo, house: Path, settings: dict[str, str]
) -> None:
    for name, value in settings.items():
        repo.git("config", name, value)
    hook = repo.write(".git/hooks/post-checkout", "#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    repo.write("mine.txt", "mine\n")
    async with open_copies(repo.path / "src") as copies:
        tasks = ["../poem.txt: line 3 -> \tthree ", "a.py: A = 1 -> \tA = 2 ", "ü.txt = fresh "]
        done = await fan_out(edit, tasks, copies=copies)
    assert done.landed, done.patches
    assert [each.files for each in done.patches] == [
        ("poem.txt",),
        ("src/a.py",),
        ("src/ü.txt",),
    ]
    assert "\tthree " in repo.read("poem.txt").splitlines()
    assert repo.read("src/a.py").splitlines() == ["\tA = 2 "]
    assert repo.read("src/ü.txt").splitlines() == ["fresh "]
    assert repo.read("mine.txt") == "mine\n"
    repo.check(house)


async def test_copies_of_a_work_tree_that_is_linked_land_in_that_one(
    repo: Repo, house: Path, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "--quiet", "-b", "other", str(linked))
    done = await fan_out(edit, ["new.txt = fresh"], copies=linked)
    assert done.landed
    assert (linked / "new.txt").read_text() == "fresh\n"
    assert repo.changes == []
    # That of the user stays, and is the only one.
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 2
    repo.git("worktree", "remove", "--force", str(linked))
    repo.check(house)


async def test_a_member_that_commits_in_its_copy_has_changed_it_all_the_same(
    repo: Repo, house: Path
) -> None:
    async def committer(task: str, folder: Path = Path()) -> str:
        (folder / "one.txt").write_text("one\n")
        repo.git("add", "--all", cwd=folder)
        repo.git("commit", "--quiet", "--message", "mine", cwd=folder)
        (folder / "two.txt").write_text("two\n")
        return "committed"

    done = await fan_out(committer, ["do"], copies=repo.path)
    assert done.patches[0].files == ("one.txt", "two.txt")
    assert repo.changes == ["?? one.txt", "?? two.txt"]
    assert repo.git("log", "--oneline", "--all").count("\n") == 1
    repo.check(house)


async def test_whoever_changes_nothing_has_no_patch(repo: Repo, house: Path) -> None:
    done = await fan_out(edit, ["look", "look again"], copies=repo.path)
    assert states(done.patches) == ["empty", "empty"]
    assert done.landed
    assert repo.patches == []
    repo.check(house)


async def test_agents_work_in_the_same_folder_of_their_copy(repo: Repo, house: Path) -> None:
    places: list[Path | None] = []

    class Backend:
        """Keeps where the agent that it is to open works, and opens nothing."""

        def open(self, agent: Agent, memory: object) -> object:
            places.append(agent.cwd)
            raise RuntimeError("not today")

    tester = Agent("tester", "Test.", backend=Backend(), cwd=repo.path / "src")
    coder = Agent("coder", "Write.", backend=Backend())
    outsider = Agent("outsider", "Write.", backend=Backend(), cwd="/")
    members = [tester, coder, outsider]
    done = await fan_out(members, "go", copies=repo.path / "src", model="fake/model")
    assert states(done.patches) == ["empty"] * 3
    copied = [each.relative_to(house) for each in places if each is not None]
    assert [each.parts[1:] for each in sorted(copied, key=lambda each: each.parts[1])] == [
        ("0-tester", "src"),
        ("1-coder", "src"),
    ]
    assert done.steps[2].status == "refused"
    assert "which is not in" in str(done.steps[2].error)
    repo.check(house)


async def test_a_branch_of_several_works_in_one_copy_and_its_check_runs_there(
    repo: Repo, house: Path
) -> None:
    check = Check(["sh", "-c", "grep -c three poem.txt"])
    team = Chain([edit, check])
    done = await fan_out(team, ["poem.txt: line 3 -> three", "look"], copies=repo.path)
    # The check has answered for both, of which one has changed nothing.
    assert [step.output.split(": ")[1][:6] for step in done.steps] == ["passed", "failed"]
    assert states(done.patches) == ["landed", "empty"], done.patches
    repo.check(house)


async def test_writers_in_a_loop_see_what_was_landed_before(repo: Repo, house: Path) -> None:
    async def next_line(task: str, folder: Path = Path()) -> str:
        lines = (folder / "poem.txt").read_text().splitlines()
        last = next(at for at, line in enumerate(lines) if line.startswith("line"))
        lines[last] = "done"
        (folder / "poem.txt").write_text("\n".join([*lines, ""]))
        return "done"

    team = Loop(FanOut([next_line], copies=repo.path), max_iterations=3)
    await team.ask("go", lifetime="workflow")
    assert repo.read("poem.txt").splitlines()[:4] == ["done", "done", "done", "line 4"]
    repo.check(house)


async def test_writers_in_a_copy_have_copies_of_that(repo: Repo, house: Path) -> None:
    inner = FanOut([edit], split=lambda task: task.split("; "), copies=".")
    task = "poem.txt: line 3 -> three; poem.txt: line 12 -> twelve"
    done = await fan_out(inner, [task], copies=repo.path)
    assert done.landed, done.patches
    assert {"three", "twelve"} <= set(repo.read("poem.txt").splitlines())
    assert len(repo.patches) == 3
    repo.check(house)


async def test_any_member_may_work_in_a_copy_and_land_when_it_has_ended(
    repo: Repo, house: Path
) -> None:
    writer = InCopy(edit, repo.path)
    assert writer.name == "edit"
    done = await Chain([writer, lambda said: f"heard: {said}"]).ask("poem.txt: line 3 -> three")
    assert done.output == "heard: did poem.txt: line 3 -> three"
    assert "three" in repo.read("poem.txt")
    single = await in_copy(edit, "poem.txt: line 4 -> four", repo.path)
    assert (single.landed, states(single.patches)) == (True, ["landed"])
    assert (await in_copy(edit, "look", repo.path / "nowhere")).status == "refused"
    repo.check(house)


async def test_answers_are_handed_out_before_their_changes_land(repo: Repo, house: Path) -> None:
    async with open_fan_out(edit, ["new.txt = fresh"], copies=repo.path) as landing:
        async for _, result in landing:
            assert result.ok
    assert landing.report.landed
    assert repo.read("new.txt") == "fresh\n"
    repo.check(house)


# Failure.


async def test_the_change_of_a_branch_that_fails_is_kept_and_not_landed(
    repo: Repo, house: Path
) -> None:
    tasks = ["half.txt = half done\nfail", "whole.txt = done"]
    done = await fan_out(edit, tasks, copies=repo.path)
    assert states(done.patches) == ["kept", "landed"]
    assert "told to fail" in done.patches[0].reason
    assert repo.changes == ["?? whole.txt"]
    repo.git("apply", done.patches[0].path)
    assert repo.read("half.txt") == "half done\n"
    repo.check(house)


async def test_of_a_race_of_writers_one_lands(repo: Repo, house: Path) -> None:
    async def quick(task: str, folder: Path = Path()) -> str:
        return await edit("poem.txt: line 3 -> quick", folder)

    async def slow(task: str, folder: Path = Path()) -> str:
        await edit("poem.txt: line 3 -> slow", folder)
        await trio.sleep(60)
        return "too late"

    done = await fan_out([slow, quick], "go", first=True, copies=repo.path)
    assert done.ok
    assert sorted(states(done.patches)) == ["kept", "landed"]
    assert "quick" in repo.read("poem.txt")
    repo.check(house)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("git init -q r && cd r && git commit -q --allow-empty -m x", "repository of its own"),
        ("rm -rf ../*-vandal", "has taken"),
    ],
)
async def test_a_copy_whose_change_cannot_be_taken_stays_or_is_named(
    repo: Repo, house: Path, spoil: str, why: str
) -> None:
    async def vandal(task: str, folder: Path = Path()) -> str:
        shell(spoil, folder)
        return "done"

    done = await fan_out([vandal, edit], "new.txt = fresh", copies=repo.path)
    stuck, landed = done.patches
    assert (stuck.state, landed.state) == ("stuck", "landed")
    assert why in stuck.reason
    assert stuck.folder
    # Whoever comes next is told of it again, until somebody has looked after it.
    async with open_copies(repo.path) as copies:
        pass
    if "own" in why:
        assert [each.folder for each in copies.rescued] == [stuck.folder]
        assert (Path(stuck.folder) / "r" / ".git").is_dir()
        shell("rm -rf r", Path(stuck.folder))
        async with open_copies(repo.path):
            pass
    repo.check(house)


@pytest.mark.parametrize(
    "spoil",
    [
        "rm .git",
        "chmod -R a-w .; mkdir -p deep/er; chmod 000 .",
        "touch $(git rev-parse --git-dir)/index.lock",
        "rm $(git rev-parse --git-dir)/index",
        "git checkout -q -b mine && git rm -q --cached poem.txt",
    ],
)
async def test_whatever_a_member_does_to_its_copy_its_change_is_taken(
    repo: Repo, house: Path, spoil: str
) -> None:
    async def vandal(task: str, folder: Path = Path()) -> str:
        (folder / "new.txt").write_text("fresh\n")
        shell(spoil, folder)
        return "done"

    done = await fan_out(vandal, ["go"], copies=repo.path)
    assert done.patches[0].files == ("new.txt",), done.patches
    assert done.landed
    repo.check(house)


async def test_what_cannot_be_copied_is_refused_before_anything_begins(
    repo: Repo, tmp_path: Path
) -> None:
    async def refusal(root: Path) -> str:
        with pytest.raises(CannotCopy) as refused:
            await fan_out(edit, ["go"], copies=root)
        return str(refused.value)

    empty = tmp_path / "empty"
    empty.mkdir()
    assert "not a git repository" in await refusal(empty)
    assert "there is no folder" in await refusal(tmp_path / "nowhere")
    Repo(empty).git("init", "--quiet")
    assert "no commit yet" in await refusal(empty)
    bare = tmp_path / "bare"
    repo.git("clone", "--quiet", "--bare", ".", str(bare))
    assert "work tree" in await refusal(bare)
    inner = make_repo(repo.path / "vendor" / "inner")
    assert "vendor/inner" in await refusal(repo.path)
    repo.commit()
    assert "vendor/inner" in await refusal(repo.path)
    assert inner.changes == []
    repo.check()


@pytest.mark.parametrize(
    "seed", [0, 1, 2, 3, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 60))]
)
async def test_whenever_git_fails_no_change_is_lost_and_all_is_cleared_up_afterwards(
    repo: Repo, house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    written: list[str] = []

    async def writer(task: str, folder: Path = Path()) -> str:
        said = await edit(task, folder)
        written.append(task)
        return said

    tasks = ["a.txt = a", "poem.txt: line 3 -> three", "b.txt = b"]
    patches: tuple[Patch, ...] = ()
    with monkeypatch.context() as broken:
        broken.setenv("PATH", break_git(tmp_path / "broken", seed))
        try:
            async with open_copies(repo.path) as copies:
                done = await fan_out(writer, tasks, copies=copies)
                patches = copies.patches
                assert {step.status for step in done.steps} <= {"ok", "refused"}
        except CannotCopy:
            assert written == []
    for each in patches:
        assert each.state == "landed" or each.reason or each.state == "empty", (seed, each)
        # What is said to be in the tree is there, whole; what is not, has not touched it.
        if each.files == ("a.txt",):
            assert (repo.path / "a.txt").exists() is (each.state == "landed"), (seed, each)
    # Whoever opens copies next, with a git that works, finds what was left.
    async with open_copies(repo.path) as copies:
        assert not [each for each in copies.rescued if each.state == "stuck"], (seed, copies)
    kept = "".join(each.read_text() for each in repo.patches)
    for task in written:
        text = task.replace(" -> ", " = ").partition(" = ")[2]
        there = any(text in repo.read(name).splitlines() for name in repo.names)
        assert there or f"+{text}\n" in kept, (seed, task, patches)
    repo.check(house)


async def test_a_git_that_is_too_old_or_not_there_is_named(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    program = folder / "git"
    says = 'case "$*" in *version*) echo "git version 2.25.1" ;; *) echo /x ;; esac'
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    with monkeypatch.context() as old:
        old.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        with pytest.raises(CannotCopy, match=r"git version 2.25.1 is too old: it takes 2.32"):
            async with open_copies(repo.path):
                pytest.fail("it is too old")
    program.write_text("#!/bin/sh\nexit 127")
    with monkeypatch.context() as none:
        none.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        with pytest.raises(CannotCopy, match="exit code 127"):
            async with open_copies(repo.path):
                pytest.fail("there is none")
    repo.check()


# Cancellation.


async def test_called_off_nothing_lands_and_all_is_kept(repo: Repo, house: Path) -> None:
    signal = Signal()

    async def writer(task: str, folder: Path = Path()) -> str:
        await edit(task, folder)
        if task.startswith("b"):
            signal.set("enough")
            await trio.sleep(60)
        return "done"

    tasks = ["a.txt = a", "b.txt = b", "c.txt = c"]
    done = await fan_out(writer, tasks, copies=repo.path, signal=signal, concurrency=1)
    assert [step.status for step in done.steps] == ["ok", "aborted", "aborted"]
    assert states(done.patches) == ["kept", "kept"]
    assert repo.changes == []
    assert len(repo.patches) == 2
    repo.check(house)


async def test_one_writer_is_stopped_and_the_others_land(repo: Repo, house: Path) -> None:
    switch = stop_switch()

    async def writer(task: str, folder: Path = Path()) -> str:
        await edit(task, folder)
        if task.startswith("b"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(switch.one, f"writer#{2}")
                await trio.sleep(60)
        return "done"

    reset_ids()
    tasks = ["a.txt = a", "b.txt = b", "c.txt = c"]
    done = await fan_out(writer, tasks, copies=repo.path, switch=switch, concurrency=1)
    assert [step.status for step in done.steps] == ["ok", "stopped", "ok"]
    assert states(done.patches) == ["landed", "kept", "landed"]
    repo.check(house)


class CutAt(trio.abc.Instrument):
    """Cancels its scope after so many steps of all tasks."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.scope = trio.CancelScope()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Called by trio."""
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(3, 30))]
)
async def test_cut_at_any_step_no_copy_lock_or_process_is_left_and_no_change_is_lost(
    repo: Repo, house: Path, seed: int
) -> None:
    chance = random.Random(seed)
    written: list[str] = []

    async def writer(task: str, folder: Path = Path()) -> str:
        await trio.sleep(0.001)
        said = await edit(task, folder)
        written.append(task)
        return said

    tasks = [f"new{number}.txt = {number}" for number in range(2)]
    # A whole one takes some 1,500 steps.
    cut = CutAt(chance.randrange(1, 1_500))
    trio.lowlevel.add_instrument(cut)
    done = None
    try:
        with cut.scope:
            async with open_copies(repo.path) as copies:
                done = await fan_out(writer, tasks, copies=copies)
    finally:
        trio.lowlevel.remove_instrument(cut)
    steps = f"seed {seed}, {cut.left} steps left"
    for task in written:
        name, _, text = task.partition(" = ")
        there = (repo.path / name).exists() and repo.read(name) == f"{text}\n"
        assert there or any(f"+{text}\n" in each.read_text() for each in repo.patches), steps
    assert done is not None or cut.scope.cancelled_caught
    # Also with what was cut while it was opened.
    async with open_copies(repo.path) as copies:
        assert copies.rescued == (), steps
    repo.check(house)


# Lifetime.


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(2, 20))]
)
async def test_after_a_kill_the_next_one_takes_the_changes_and_clears_up(
    repo: Repo, house: Path, seed: int
) -> None:
    program = """
import sys, trio, pathlib
from standby import fan_out
from tests.combinators.repositories import edit

async def writer(task, folder=pathlib.Path()):
    await edit(task, folder)
    print(task, flush=True)
    await trio.sleep(float(sys.argv[2]))
    return "done"

async def main():
    await fan_out(writer, ["a.txt = a", "b.txt = b"], copies=sys.argv[1])
    print("over", flush=True)

trio.run(main)
"""
    chance = random.Random(seed)
    # Killed while they work, while their changes are taken, or while these are landed.
    hold, wait = (60.0, 0.0) if seed == 0 else (0.0, chance.uniform(0.0, 0.6))
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(  # noqa: ASYNC220 - killed, not waited for
        [sys.executable, "-c", program, str(repo.path), str(hold)],
        env=os.environ | {"PYTHONPATH": path},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        assert killed.stdout is not None
        lines = [await trio.to_thread.run_sync(killed.stdout.readline) for _ in range(2)]
        await trio.sleep(wait)
        killed.kill()
    async with open_copies(repo.path) as copies:
        rescued = copies.rescued
    assert {each.state for each in rescued} <= {"kept", "landed"}, (seed, rescued)
    if seed == 0:
        assert [(each.state, each.files) for each in rescued] == [
            ("kept", ("a.txt",)),
            ("kept", ("b.txt",)),
        ]
    for line in lines:
        name, _, text = line.strip().partition(" = ")
        there = (repo.path / name).exists() and repo.read(name) == f"{text}\n"
        assert there or any(f"+{text}\n" in each.read_text() for each in repo.patches), rescued
    # It is told once.
    async with open_copies(repo.path) as copies:
        assert copies.rescued == ()
    repo.check(house)


async def test_those_of_somebody_who_is_alive_are_left_alone(repo: Repo, house: Path) -> None:
    async with open_copies(repo.path) as copies, copies.open("mine") as copy:
        (copy.folder / "mine.txt").write_text("mine\n")
        async with open_copies(repo.path) as others, others.open("theirs") as theirs:
            assert others.rescued == ()
            (theirs.folder / "theirs.txt").write_text("theirs\n")
        assert copy.folder.is_dir()
        await others.land()
    await copies.land()
    assert repo.changes == ["?? mine.txt", "?? theirs.txt"]
    repo.check(house)


async def test_a_landing_that_was_killed_half_way_says_which_files_are_missing(
    repo: Repo, house: Path
) -> None:
    async with open_copies(repo.path) as copies, copies.open() as copy:
        await edit("a.txt = a\nb.txt = b", copy.folder)
    # As it is written down before the tree is changed, and a part of the change.
    before = repo.git("rev-parse", "HEAD^{tree}").strip()
    repo.write("a.txt", "a\n")
    repo.write("b.txt", "b\n")
    repo.git("add", "--all")
    after = repo.git("write-tree").strip()
    repo.git("rm", "--quiet", "--cached", "a.txt", "b.txt")
    (repo.path / "b.txt").unlink()
    entry = Landed(
        name="0-copy",
        path=copies.patches[0].path,
        top=str(repo.path),
        folder=str(repo.path / ".git"),
        before=before,
        after=after,
        files=("a.txt", "b.txt"),
    )
    (repo.path / ".git/standby/runs/gone.landing").write_bytes(msgspec.json.encode(entry))
    async with open_copies(repo.path) as copies:
        [found] = copies.rescued
    assert (found.state, found.conflicts) == ("refused", ("b.txt",))
    assert "without b.txt" in found.reason
    repo.check(house)


async def test_two_processes_land_in_one_repository_one_after_the_other(
    repo: Repo, house: Path
) -> None:
    program = """
import sys, trio
from standby import fan_out
from tests.combinators.repositories import edit

async def main():
    tasks = [f"{sys.argv[2]}{number}.txt = {number}" for number in range(2)]
    done = await fan_out(edit, tasks, copies=sys.argv[1])
    assert done.landed, done.patches

trio.run(main)
"""
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", program, str(repo.path)]

    async def team(name: str) -> None:
        await trio.run_process(
            [*command, name],
            env=os.environ | {"PYTHONPATH": path},
            cwd=Path(__file__).parents[2],
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(team, "a")
        nursery.start_soon(team, "b")
    names = [f"?? {who}{number}.txt" for who in "ab" for number in range(2)]
    assert repo.changes == names
    repo.check(house)


async def test_a_repository_that_somebody_else_has_is_waited_for_and_no_longer(
    repo: Repo, house: Path
) -> None:
    found = await find_repository(repo.path, 10.0)

    async def impatient() -> None:
        with pytest.raises(GitFailed, match=r"another team has had .* for 0.05 s"):
            async with one_writer(found, 0.05):
                pytest.fail("somebody else has it")

    async with one_writer(found, 10.0), trio.open_nursery() as nursery:
        nursery.start_soon(impatient)
    lock = try_lock(found.ours / "lock")
    assert lock is not None
    try:
        with pytest.raises(GitFailed, match="another team"):
            async with one_writer(found, 0.05):
                pytest.fail("another process has it")
    finally:
        os.close(lock)
    async with open_copies(repo.path):
        pass
    repo.check(house)


async def test_what_is_taken_outlives_the_copy_and_its_index(repo: Repo, house: Path) -> None:
    async with open_copies(repo.path) as copies:
        with pytest.raises(AssertionError):
            async with copies.open("mine") as copy:
                # The second has nothing to change, and fails in the middle.
                await edit("a.txt = a\npoem.txt: no such line -> b", copy.folder)
        async with copies.open("other") as copy:
            await edit("b.txt = b", copy.folder)
        assert states(copies.patches) == ["kept", "taken"]
        assert not copy.folder.exists()
        assert states(await copies.land()) == ["kept", "landed"]
        # Landing again does nothing.
        assert states(await copies.land()) == ["kept", "landed"]
    assert repo.changes == ["?? b.txt"]
    repo.check(house)
