"""A swarm hears itself, shares its work, loses no turn, and without a board is a fan-out."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent
from standby_actors.result import Result, ToolCall, TurnError, failed
from standby_actors.tools.tool import ToolContext
from standby_combinators import (
    Board,
    BoardLimits,
    Chain,
    Claim,
    ClaimRefused,
    Claims,
    Post,
    PostRefused,
    Signal,
    Swarm,
    agreed,
    fan_out,
    swarm,
)
from standby_combinators.swarm import board_tool

from .players import FakePlayer, FakeTroupe
from .teams import KEEPER, SCOUT, WRITER, Played, good, says


def shown(result: Result) -> tuple[str, str, str, int]:
    """What a Result says, and in how many turns."""
    return result.status, result.output, result.agent, result.usage.turns


async def some_fail(task: str, player: FakePlayer) -> str | Result:
    """The writer cannot."""
    await trio.sleep(1)
    if player.agent.name == "writer":
        return failed("writer", "provider", "500")
    return task


@pytest.mark.parametrize("answer", [good, some_fail])
async def test_without_a_board_one_round_is_a_fan_out(
    autojump_clock: trio.testing.MockClock, answer: Any
) -> None:
    members = [SCOUT, KEEPER, WRITER, SCOUT]
    fanned = await fan_out(members, "find it", spawn=FakeTroupe(answer).spawn)
    swarmed = await swarm(members, "find it", rounds=1, spawn=FakeTroupe(answer).spawn)
    assert shown(swarmed) == shown(fanned)
    assert [shown(step) for step in swarmed.steps] == [shown(step) for step in fanned.steps]


async def test_members_are_held_over_all_rounds_and_told_what_is_new_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    board = Board()

    async def talk(task: str, player: FakePlayer) -> str:
        number = len(player.memory)
        board.post(f"{player.agent.name}@1", "tell", f"{player.agent.name} {number}")
        return task

    troupe = FakeTroupe(talk)
    done = await swarm([SCOUT, WRITER], "go", rounds=3, board=board, spawn=troupe.spawn)
    assert (done.rounds, done.stopped_by, done.converged) == (3, "rounds", False)
    assert done.members == ("scout@1", "writer@1")
    assert len(troupe.opened) == 2
    heard = "\n".join(troupe.opened[1].memory)
    # Its own words are not handed back, and each other word once.
    assert [heard.count(f"[tell] scout {n}") for n in (1, 2)] == [1, 1]
    assert "[tell] writer" not in heard
    assert "This is turn 3 of at most 3." in heard
    assert len(done.posts) == 6


async def test_a_swarm_ends_as_soon_as_it_agrees(autojump_clock: trio.testing.MockClock) -> None:
    board = Board()

    async def think(task: str, player: FakePlayer) -> str:
        choice = "yes" if player.agent.name == "scout" or len(player.memory) > 1 else "no"
        board.post(f"{player.agent.name}@1", "result", f"Because.\nVOTE: {choice}")
        return choice

    done = await swarm(
        [SCOUT, WRITER], "go", rounds=9, board=board, until=agreed(2), spawn=FakeTroupe(think).spawn
    )
    assert (done.converged, done.stopped_by, done.rounds) == (True, "until", 2)


async def test_a_member_that_fails_twice_is_dropped_and_what_it_holds_is_free_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    claims = Claims(["a", "b"])
    seen: list[tuple[str, ...]] = []

    async def work(task: str, player: FakePlayer) -> str | Result:
        if player.agent.name == "writer":
            claims.take("writer@1", "a")
            return failed("writer", "provider", "500")
        await trio.sleep(1)
        claims.take("scout@1", "b")
        seen.append(claims.held())
        return task

    troupe = FakeTroupe(work)
    done = await swarm([SCOUT, WRITER], "go", rounds=4, claims=claims, spawn=troupe.spawn)
    assert [len(player.memory) for player in troupe.opened] == [4, 2]
    assert seen[2:] == [("b",), ("b",)]
    assert (done.status, done.stopped_by) == ("failed", "rounds")
    assert done.claims[1] == Claim("b", "held", "scout@1")
    assert done.released == ("b",)
    assert claims.free() == ("a", "b")


async def test_a_member_that_crashes_has_another_life_and_has_lost_its_claims(
    autojump_clock: trio.testing.MockClock,
) -> None:
    claims = Claims()

    async def work(task: str, player: FakePlayer) -> str:
        if player.id == "scout#1":
            claims.take("scout@1", "the door")
            raise RuntimeError("torn")
        assert claims.held() == ()
        return "done"

    troupe = FakeTroupe(work)
    done = await swarm([SCOUT], "go", rounds=2, claims=claims, spawn=troupe.spawn)
    assert done.ok
    assert [step.status for step in done.steps] == ["crashed", "ok"]
    assert [player.id for player in troupe.opened] == ["scout#1", "scout#2"]


async def test_a_swarm_of_which_nobody_is_left_ends(autojump_clock: trio.testing.MockClock) -> None:
    troupe = FakeTroupe(says(TurnError("provider", "500")))
    done = await swarm([SCOUT, WRITER], "go", rounds=9, spawn=troupe.spawn)
    assert (done.stopped_by, done.status, done.rounds) == ("members", "failed", 2)


async def test_free_members_are_woken_by_mail_and_end_when_nobody_has_news(
    autojump_clock: trio.testing.MockClock,
) -> None:
    board = Board()
    turns: list[tuple[float, str]] = []

    async def play(task: str, player: FakePlayer) -> str:
        name = f"{player.agent.name}@1"
        turns.append((trio.current_time(), name))
        await trio.sleep(10 if player.agent.name == "keeper" else 1)
        if player.agent.name == "scout" and len(player.memory) == 1:
            board.post(name, "ask", "Which way?", to="writer@1")
        if player.agent.name == "writer" and len(player.memory) == 2:
            board.post(name, "tell", "Left.", to="scout@1", re="p1")
        return task

    done = await swarm(
        [SCOUT, WRITER, KEEPER],
        "go",
        rounds=5,
        board=board,
        free_running=True,
        spawn=FakeTroupe(play).spawn,
    )
    assert done.stopped_by == "quiet"
    counts = {name: sum(who == name for _, who in turns) for name in done.members}
    assert counts == {"scout@1": 2, "writer@1": 2, "keeper@1": 1}
    # Nobody waited for the slowest.
    assert max(at for at, who in turns if who != "keeper@1") < 5


async def test_a_condition_that_raises_keeps_the_turns(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def until(board: Board) -> bool:
        raise ZeroDivisionError

    done = await swarm([SCOUT], "go", board=Board(), until=until, spawn=FakeTroupe(good).spawn)
    assert (done.status, done.stopped_by, len(done.steps)) == ("crashed", "failed", 1)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("moment", [None, 0.75, 1.75, 3.3])
async def test_a_swarm_that_is_called_off_says_so_and_leaves_nothing(
    autojump_clock: trio.testing.MockClock, free: bool, moment: float | None
) -> None:
    signal, board = Signal(), Board()

    async def talk(task: str, player: FakePlayer) -> str:
        await trio.sleep(1)
        board.post(player.id, "tell", f"{player.id} {trio.current_time()}")
        return task

    team = Swarm([SCOUT, KEEPER, SCOUT], rounds=50, board=board, free_running=free)
    played = Played(team, FakeTroupe(talk), signal=signal)
    if moment is None:
        signal.set("not today")
    async with trio.open_nursery() as nursery:

        async def call_off() -> None:
            await trio.sleep(moment or 0)
            signal.set("enough")

        nursery.start_soon(call_off)
        done = await played.run()
    assert (done.status, done.stopped_by) == ("aborted", "signal")
    played.check()
    if moment is None:
        assert played.troupe.opened == []


@pytest.mark.parametrize("moment", [0.25, 0.75, 1.75, 3.25])
async def test_a_swarm_that_is_cancelled_leaves_nothing_and_no_claim(
    autojump_clock: trio.testing.MockClock, moment: float
) -> None:
    claims = Claims()

    async def work(task: str, player: FakePlayer) -> str:
        claims.take("scout@1", player.id)
        await trio.sleep(1)
        return task

    played = Played(Swarm([SCOUT], rounds=9, claims=claims), FakeTroupe(work))
    with trio.move_on_after(moment):
        await played.run()
    played.check()
    assert claims.held() == ()


async def test_a_swarm_is_a_member_like_any_other(autojump_clock: trio.testing.MockClock) -> None:
    played = Played(Chain([Swarm([SCOUT, WRITER], rounds=2), KEEPER]), FakeTroupe(good))
    assert (await played.run()).ok
    played.check()


def test_a_board_is_stamped_capped_and_refuses_with_a_reason() -> None:
    limits = BoardLimits(posts=4, characters=10, posts_each=2)
    board = Board(["a", "b", "c"], limits, clock=lambda: 0.0)
    first = board.post("a", "ask", " Who? ")
    assert first == Post("p1", "a", "ask", "Who?", 0.0)

    def why(*given: str, **more: str) -> str:
        refused = board.post(*given, **more)  # type: ignore[arg-type]
        assert isinstance(refused, PostRefused)
        return refused.reason

    assert "blank" in why("a", "tell", "  ")
    assert "at most 10 characters" in why("a", "tell", "x" * 11)
    assert "it is p1" in why("a", "ask", "Who?")
    assert "there is no 'z'" in why("a", "tell", "x", to="z")
    assert "no post 'p9'" in why("a", "tell", "x", re="p9")
    assert "a post is one of" in why("a", "shout", "x")
    board.post("a", "tell", "more")
    assert "posted 2 times" in why("a", "tell", "even more")
    board.post("b", "tell", "1")
    board.post("b", "tell", "2")
    assert "the board is full" in why("c", "tell", "3")


def test_a_private_post_is_for_its_reader_and_pages_lose_nothing() -> None:
    board = Board(clock=lambda: 0.0)
    for number in range(5):
        board.post("a", "tell", f"{number}", to="b" if number == 2 else "")
    first, second = board.handout("b", 3), board.handout("b", 3)
    assert [post.text for post in first.posts] == ["0", "1", "2"]
    assert first.waiting == 2
    assert [post.text for post in second.posts] == ["3", "4"]
    assert [post.text for post in board.handout("c").posts] == ["0", "1", "3", "4"]
    assert not board.has_news("b")


def test_a_claim_has_one_holder_and_what_is_done_is_never_free() -> None:
    now = 0.0
    claims = Claims(["a", "b"], max_each=1, seconds=10, clock=lambda: now)
    assert claims.take("x", "a") == Claim("a", "held", "x")
    assert claims.take("x", "a") == Claim("a", "held", "x")
    assert claims.take("y", "a") == ClaimRefused("'a' is held by x; free are: b", "x")
    assert claims.take("x", "b") == ClaimRefused("you hold a: finish or release one first")
    assert isinstance(claims.take("y", "q"), ClaimRefused)
    assert isinstance(claims.release("y", "a"), ClaimRefused)
    # A lease lasts as long as its holder does something.
    now = 9.0
    claims.renew("x")
    now = 18.0
    assert claims.held() == ("a",)
    now = 19.0
    assert claims.free() == ("a", "b")
    claims.renew("x")
    assert claims.take("y", "a") == Claim("a", "held", "y")
    claims.finish("y", "a", "works")
    now = 100.0
    assert claims.look("a") == Claim("a", "done", "y", "works")
    assert claims.release_all("y") == ()
    assert isinstance(claims.take("x", "a"), ClaimRefused)
    assert claims.free() == ("b",)


async def test_what_a_model_says_with_the_tool_is_stamped_by_us() -> None:
    board, claims = Board(["scout@1", "scout@2"]), Claims(["a"])
    mine = board_tool("scout@1", board, claims)

    async def call(**arguments: Any) -> tuple[str, bool]:
        assert not mine.problems(arguments)
        output = await mine.run(arguments, ToolContext(ToolCall("1", "board", "{}")))
        assert not isinstance(output, str)
        return output.text, output.is_error

    assert await call(action="post", text="I am scout@2") == ("Posted as p1.", False)
    assert board.posts[0].by == "scout@1"
    assert (await call(action="post", text="x", to="nobody"))[1]
    board.post("scout@2", "tell", "Hello.")
    assert await call(action="read") == ("p2 scout@2 -> all [tell] Hello.", False)
    assert await call(action="read") == ("Nothing new.", False)
    assert await call(action="take", key="a") == ("a is held.", False)
    assert await call(action="done", key="a", text="fine") == ("a is done.", False)
    assert (await call(action="take", key="a"))[1]
    assert claims.look("a").result == "fine"


async def test_a_model_is_given_the_tool_and_a_function_is_not() -> None:
    given: list[Any] = []

    class Model:
        def session(self, agent: Agent, /) -> Any:
            given.append(agent.tools)
            from standby_actors.sessions.scripted import ScriptedSession

            return ScriptedSession(["said", "said"])

    done = await swarm([SCOUT], "go", rounds=1, board=Board(), model=Model())
    assert done.ok
    assert [tool.name for tool in given[0]] == ["board"]


async def test_a_swarm_is_refused_before_anything_is_spawned() -> None:
    with pytest.raises(ValueError, match="give board="):
        await swarm([SCOUT], "go", free_running=True)
    with pytest.raises(ValueError, match="at least 1 member"):
        await swarm([], "go")
    with pytest.raises(ValueError, match="whole and at least 1"):
        await swarm([SCOUT], "go", rounds=0)
