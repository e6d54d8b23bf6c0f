"""What an operator is told has the allowed fields alone, and no secret or transcript in it."""

from __future__ import annotations

import json
import logging
import pickle
import random
import string
import traceback
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from standby_actors.agent import Agent
from standby_actors.result import failed, succeeded
from standby_supervision.ledger import (
    SUBAGENT,
    Anchor,
    Blocker,
    CannotCapture,
    Escalation,
    OperatorWait,
    RepositoryState,
    Reuse,
    Scope,
    Secret,
    SessionSpec,
    SpawnBlocked,
    Untrusted,
    encode_escalation,
)
from standby_supervision.ledger.escalation import INVENTORY_UNAVAILABLE, SessionSummary
from standby_supervision.ledger.roles import IMPLEMENTER, Implementation

from .sessions import Backend, Stage, stage


def escalation(**fields: Any) -> Escalation:
    summary = SessionSummary(
        "coder#1", "waiting", "implementer", Scope(task="t1"), Anchor("a" * 40)
    )
    told: dict[str, Any] = {
        "cause": "retained",
        "role": "spec-reviewer",
        "scope": Scope(review="t1"),
        "sessions": (summary,),
        "open": ("coder#1",),
        "repository": RepositoryState("main", "b" * 40, 2, 1),
        **fields,
    }
    return Escalation(**told)


def test_it_has_ids_status_role_scope_and_anchors() -> None:
    assert escalation().render() == (
        "orchestration resource exhaustion: no slot (retained) for spec-reviewer, review t1\n"
        "open: coder#1\n"
        f"- coder#1  waiting  implementer  task t1  base {'a' * 40} head -\n"
        f"branch main at {'b' * 40}, 2 changed, 1 untracked"
    )


def test_an_inventory_that_there_is_not_is_said_to_be_unavailable() -> None:
    assert INVENTORY_UNAVAILABLE in escalation(open=None).render()
    assert "open: none" in escalation(open=()).render()


def test_a_shared_comment_has_no_session_in_it() -> None:
    shared = escalation().shared(
        reference="issue 6", path="docs/ledger.md", follow_up="ann: free the slots"
    )
    assert shared.render() == (
        "evidence: standby ledger\n"
        "reference: issue 6\n"
        "path: docs/ledger.md\n"
        "owner: spec-reviewer\n"
        "state: blocked\n"
        "blocker: orchestration resource exhaustion\n"
        "follow-up: ann: free the slots"
    )
    assert b"coder#1" not in encode_escalation(shared)
    assert set(msgspec.structs.asdict(shared)) == {
        "evidence",
        "reference",
        "path",
        "owner",
        "state",
        "blocker",
        "follow_up",
    }


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../b", "C:\\x", "a\nb"])
def test_a_path_in_a_shared_comment_is_of_the_repository(path: str) -> None:
    with pytest.raises(ValueError, match="the path of a shared escalation"):
        escalation().shared(path=path)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Traceback (most recent call last):\n  File", id="a stack"),
        pytest.param("User: hi\nAssistant: hello", id="a transcript"),
        pytest.param("x" * 200, id="a long text"),
        pytest.param("\x1b[2J", id="what moves a cursor"),
        pytest.param("{'a': \"b\"}", id="quotes and braces"),
    ],
)
def test_text_of_others_does_not_fit_into_any_field(text: str) -> None:
    with pytest.raises(ValueError, match="short name"):
        Scope(task=text)
    with pytest.raises(ValueError, match="short name"):
        escalation(role=text)
    with pytest.raises(ValueError, match="short name"):
        escalation(open=(text,))
    with pytest.raises(ValueError, match="short name"):
        Blocker(text)
    with pytest.raises(ValueError, match=r"short name|shared"):
        escalation().shared(reference=text)


def test_an_escalation_has_no_field_for_anything_else() -> None:
    assert set(Escalation.__struct_fields__) == {
        "classification",
        "cause",
        "role",
        "scope",
        "sessions",
        "open",
        "repository",
    }
    assert set(SessionSummary.__struct_fields__) == {"session", "status", "role", "scope", "anchor"}
    other: Any = {"transcript": "hi"}
    with pytest.raises(TypeError, match="this encodes escalations alone, not a dict"):
        encode_escalation(other)


@pytest.mark.parametrize("kind", [Untrusted, Secret])
def test_what_is_not_to_be_shown_refuses_every_way_to_show_it(kind: Any) -> None:
    held = kind("s3cr3t-canary")
    assert held.reveal() == "s3cr3t-canary"
    assert "s3cr3t" not in repr(held) + repr([held]) + repr({"a": held})
    for show in (str, lambda it: f"{it}", lambda it: f"{it:>10}", "%s".__mod__, pickle.dumps):
        with pytest.raises(TypeError) as caught:
            show(held)
        assert "s3cr3t" not in str(caught.value)
    with pytest.raises(TypeError):
        json.dumps(held)
    with pytest.raises(TypeError):
        msgspec.json.encode(held)
    assert held == kind("s3cr3t-canary")
    assert held != kind("another")


def test_a_secret_of_the_environment_is_hidden_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAKE_API_KEY", "sk-scope-12345678")
    told = escalation(scope=Scope(task="sk-scope-12345678"))
    assert "sk-scope" not in told.render() + str(told)
    assert b"sk-scope" not in encode_escalation(told)
    assert "sk-scope" not in told.shared(reference="sk-scope-12345678").render()


def noise(chance: random.Random, canary: str) -> str:
    """A text as somebody may have said it, with a secret in the midst of it."""
    alphabet = string.printable + "äß漢\u202e\U0001f600"
    around = ["".join(chance.choices(alphabet, k=chance.randrange(40))) for _ in range(2)]
    return canary.join(around)


@pytest.mark.parametrize("seed", range(25))
async def test_nothing_that_a_session_said_reaches_an_escalation_a_log_or_a_repr(
    seed: int, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)
    canary = f"canary{chance.getrandbits(64):x}"
    caplog.set_level(logging.DEBUG)
    waits: list[OperatorWait] = []
    errors: list[BaseException] = []

    async def answer(task: str) -> Any:
        said = noise(chance, canary)
        if chance.random() < 0.3:
            return failed("coder", "provider", said)
        return succeeded("coder", said)

    on = stage(Backend(most=3), on_wait=waits.append, operator_seconds=5)
    spec = SessionSpec(Agent("coder", answer), IMPLEMENTER)
    state = Implementation(
        "BLOCKED",
        noise(chance, canary),
        changed_files=(noise(chance, canary),),
        blocker_detail=noise(chance, canary),
        question=noise(chance, canary),
    )

    async def one(left: int) -> None:
        async with on.ledger.open(spec) as seat:
            # Kept open, so that the fourth finds no slot.
            with seat.window():
                await seat.ask(noise(chance, canary))
                if chance.random() < 0.7:
                    receipt = await seat.capture(state)
                    if chance.random() < 0.5:
                        await seat.supersede(receipt, noise(chance, canary))
                wrong: Any = {"status": noise(chance, canary), noise(chance, canary): 1}
                with pytest.raises(CannotCapture) as refused:
                    await seat.capture(wrong)
                await on.ledger.note(
                    seat.ref,
                    blocker=Blocker("provider-down", noise(chance, canary)),
                    reuse=Reuse(noise(chance, canary)),
                )
                errors.append(refused.value)
                if left:
                    await one(left - 1)
                    return
                with pytest.raises(SpawnBlocked) as blocked:
                    async with on.ledger.open(spec):
                        pass
                errors.append(blocked.value)
                shown(on, waits, errors, canary)

    await one(2)
    shown(on, waits, errors, canary)
    assert canary not in caplog.text
    on.journal.check(on.ledger)
    # It is kept all the same: for whoever has the rows.
    assert any(canary.encode() in line for line in on.journal.lines)


def shown(on: Stage, waits: list[OperatorWait], errors: list[BaseException], canary: str) -> None:
    """Everything that a person or a log could be shown."""
    told = [repr(on.ledger), repr(on.ledger.rows), on.ledger.render(), repr(on.journal.facts)]
    told += [str(each) + repr(each) for each in waits]
    for error in errors:
        told += [str(error), repr(error), "".join(traceback.format_exception(error))]
        if isinstance(error, SpawnBlocked):
            told += [error.escalation.render(), error.escalation.shared().render()]
            told.append(encode_escalation(error.escalation).decode())
            told.append(repr(error.escalation))
    assert told
    assert [text for text in told if canary in text] == []


# ---- the repository


async def git(root: Path, *arguments: str) -> str:
    env = {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "PATH": "/usr/bin:/bin",
    }
    names = ("-c", "user.name=ann", "-c", "user.email=ann@localhost")
    done = await trio.run_process(
        ["git", *names, *arguments], cwd=root, env=env, capture_stdout=True
    )
    return done.stdout.decode().strip()


def files_of(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.real
async def test_the_state_of_the_source_is_read_from_git_and_nothing_of_it_is_written(
    tmp_path: Path,
) -> None:
    from standby_supervision.ledger import read_repository

    assert not (await read_repository(tmp_path)).known
    await git(tmp_path, "init", "-q", "-b", "main")
    assert await read_repository(tmp_path) == RepositoryState("main", "")
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "b.py").write_text("b = 1\n")
    await git(tmp_path, "add", ".")
    await git(tmp_path, "commit", "-q", "-m", "begin")
    head = await git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "a.py").write_text("a = 2\n")
    await git(tmp_path, "mv", "b.py", "c.py")
    (tmp_path / "new file").write_text("")
    # A file that was only touched would have the index refreshed by a plain `git status`.
    before = files_of(tmp_path)
    assert await read_repository(tmp_path) == RepositoryState("main", head, 2, 1)
    assert files_of(tmp_path) == before
    await git(tmp_path, "checkout", "-q", "--detach")
    assert await read_repository(tmp_path) == RepositoryState("", head, 2, 1)
    # Whoever can push a branch chooses its name.
    await git(tmp_path, "checkout", "-q", "-b", "$(reboot);`x`")
    assert (await read_repository(tmp_path)).branch == "(of a name not shown)"


@pytest.mark.real
async def test_a_whole_recovery_changes_neither_git_nor_the_status_of_a_task(
    tmp_path: Path,
) -> None:
    await git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a.py").write_text("a = 1\n")
    await git(tmp_path, "add", ".")
    await git(tmp_path, "commit", "-q", "-m", "begin")
    before = files_of(tmp_path)

    async def echo(task: str) -> str:
        return task

    on = stage(Backend(most=1), operator_seconds=0.01, repository=tmp_path)
    spec = SessionSpec(Agent("scout", echo), SUBAGENT)
    async with on.ledger.open(spec) as seat:
        result = await seat.ask("look")
        with pytest.raises(SpawnBlocked) as caught:
            async with on.ledger.open(spec):
                pass
        assert (seat.row.status, seat.last) == ("ok", result)
    assert caught.value.escalation.repository is not None
    assert caught.value.escalation.repository.branch == "main"
    assert files_of(tmp_path) == before
