"""Names and groups follow restarts, and are free again when there will be no other life."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import Actor, MailboxFull, Names, Ref
from standby_supervision import (
    AlreadyStarted,
    Backoff,
    Done,
    Ignore,
    Ignored,
    Started,
    StartError,
    StartFailed,
    Tree,
    child,
    open_supervisor,
    partitions,
    supervisor,
    workers,
)

SLOW = Backoff(10.0, jitter=0.0)
HEARD: list[Any] = []
"""Who heard what, in which life."""


@pytest.fixture(autouse=True)
def _nothing_is_heard_yet() -> None:
    HEARD.clear()


class Member(Actor):
    """Joins a group with each life that is told to; writes down what it hears."""

    def __init__(self, group: str = "") -> None:
        self.group = group

    def on_start(self) -> None:
        if self.group:
            self.join_group(self.group)

    async def receive(self, message: Any) -> Any:
        match message:
            case "crash":
                raise ValueError(message)
            case "leave":
                return self.stop()
            case "wait":
                return await trio.sleep_forever()
            case "join", group:
                return self.join_group(group)
            case "leave group", group:
                return self.leave_group(group)
            case "whereis", name:
                return self.whereis(name)
            case _:
                HEARD.append((self.ref.path.rpartition("/")[2], self.ref.incarnation, message))
                return self.ref.incarnation


async def quiet() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def crash(ref: Ref[Any]) -> None:
    ref.tell("crash")
    await quiet()


def names_of(tree: Tree) -> Names:
    return tree._block.names  # pyright: ignore[reportPrivateUsage] # those of the tree


ENDS = ["crash", "leave", "kill", "stop"]


async def end(ref: Ref[Any], how: str) -> None:
    if how == "kill":
        ref.kill()
    elif how == "stop":
        ref.stop()
    else:
        ref.tell(how)
    await quiet()


# ---- names


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("backoff", [None, SLOW], ids=["at once", "later"])
async def test_a_name_is_that_of_all_lives_and_of_the_time_between(
    how: str, backoff: Backoff | None, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_supervisor(child(Member, name="db"), backoff=backoff) as tree:
        names, ref = names_of(tree), tree["db"]
        assert names.whereis("db") == ref
        await end(ref, how)
        assert names.whereis("db") == ref
        answer = await tree.start_child(child(Member, id="other", name="db"))
        if backoff is None:
            assert answer == AlreadyStarted(ref)
        assert not isinstance(answer, Started)
        assert await ref.ask("hello") == 2
        assert names.names() == ("db",)


@pytest.mark.parametrize("restart", ["transient", "temporary"])
async def test_a_name_is_free_when_its_child_does_not_come_back(
    restart: Any, autojump_clock: trio.testing.MockClock
) -> None:
    spec = child(Member, name="db", restart=restart)
    async with open_supervisor(spec, child(Member, id="asks")) as tree:
        await end(tree["db"], "leave")
        assert await tree["asks"].ask(("whereis", "db")) is None
        assert names_of(tree).names() == ()


async def test_a_name_is_free_when_its_child_is_terminated_and_its_again_when_restarted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Member, name="db")) as tree:
        names, ref = names_of(tree), tree["db"]
        await tree.terminate_child("db")
        assert names.names() == ()
        assert await tree.restart_child("db") == Started(ref)
        assert names.whereis("db") == ref


async def test_a_name_that_somebody_took_meanwhile_is_an_error_of_the_start(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sub = supervisor(id="sub")
    async with open_supervisor(child(Member, name="db"), sub) as tree:
        await tree.terminate_child("db")
        thief = await tree.branch("sub").start_child(child(Member, id="thief", name="db"))
        assert isinstance(thief, Started)
        answer = await tree.restart_child("db")
        assert isinstance(answer, StartError)
        assert "db" in str(answer.error)
        assert names_of(tree).whereis("db") == thief.ref
        await tree.branch("sub").terminate_child("thief")
        assert isinstance(await tree.restart_child("db"), Started)


async def test_a_name_is_free_before_anybody_hears_that_its_supervisor_gave_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[Any] = []

    class Watches(Member):
        async def receive(self, message: Any) -> Any:
            if isinstance(message, Ref):
                return self.monitor(message)
            return await super().receive(message)

        def on_down(self, down: Any) -> None:
            seen.append(self.whereis("db"))

    spec = supervisor(child(Member, name="db"), id="sub", intensity=0, restart="temporary")
    async with open_supervisor(spec, child(Watches, id="watches")) as tree:
        await tree["watches"].ask(tree["sub"])
        await crash(tree.branch("sub")["db"])
        assert seen == [None]
        assert names_of(tree).names() == ()


async def test_a_child_that_cannot_start_or_has_nothing_to_run_leaves_no_name(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Fails(Member):
        def on_start(self) -> None:
            raise ConnectionError

    class Ignores(Member):
        def on_start(self) -> None:
            raise Ignore

    async with open_supervisor() as tree:
        assert isinstance(await tree.start_child(child(Fails, name="db")), StartError)
        assert names_of(tree).names() == ()
        assert await tree.start_child(child(Ignores, name="db")) == Ignored()
        assert names_of(tree).names() == ()
        assert await tree.delete_child("db") == Done()
        assert isinstance(await tree.start_child(child(Member, name="db")), Started)
    names = Names()
    with pytest.raises(StartFailed):
        async with open_supervisor(
            child(Member, name="one"), child(Fails, name="two"), names=names
        ):
            raise AssertionError("it cannot start")
    assert names.names() == ()


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_siblings_that_are_taken_along_keep_their_names_and_groups(
    strategy: Any, autojump_clock: trio.testing.MockClock
) -> None:
    children = [child(Member, "all", name=each) for each in "abc"]
    async with open_supervisor(*children, strategy=strategy) as tree:
        names = names_of(tree)
        refs = [tree[each] for each in "abc"]
        await crash(tree["a"])
        assert [names.whereis(each) for each in "abc"] == refs
        assert names.members("all") == tuple(refs)
        assert [each.incarnation for each in refs] == [2, 2, 2]
        assert names.broadcast("all", "hello") == 3
        await quiet()
        assert [(each, 2, "hello") for each in "abc"] == HEARD


async def test_a_temporary_sibling_that_is_taken_along_gives_its_name_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    temporary = child(Member, "all", name="t", restart="temporary")
    async with open_supervisor(
        child(Member, "all", name="a"), temporary, strategy="one_for_all"
    ) as tree:
        await crash(tree["a"])
        assert names_of(tree).names() == ("a",)
        assert names_of(tree).members("all") == (tree["a"],)


async def test_names_are_shared_by_trees_that_are_given_the_same(
    autojump_clock: trio.testing.MockClock,
) -> None:
    names = Names()
    async with (
        open_supervisor(child(Member, name="one"), names=names) as tree,
        open_supervisor(child(Member, id="asks"), names=names) as other,
    ):
        assert await other["asks"].ask(("whereis", "one")) == tree["one"]
        await crash(tree["one"])
        assert await other["asks"].ask(("whereis", "one")) == tree["one"]
    assert names.names() == ()


# ---- groups


@pytest.mark.parametrize("how", ENDS)
async def test_a_membership_is_that_of_all_lives(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_supervisor(child(Member, id="a"), child(Member, id="b")) as tree:
        names, a, b = names_of(tree), tree["a"], tree["b"]
        for each in (a, b):
            await each.ask(("join", "group"))
        await end(a, how)
        assert names.members("group") == (a, b)  # and in the order in which they joined
        await a.ask(("leave group", "group"))
        assert names.members("group") == (b,)
        await end(a, how)
        assert names.members("group") == (b,)


async def test_to_join_again_with_each_life_is_to_be_a_member_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Member, "group", id="a")) as tree:
        for _ in range(3):
            await crash(tree["a"])
        assert names_of(tree).members("group") == (tree["a"],)
        assert names_of(tree).broadcast("group", "hello") == 1
        await quiet()
        assert HEARD == [("a", 4, "hello")]


async def test_a_broadcast_during_a_restart_waits_for_the_next_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    children = [child(Member, "group", id=each) for each in "ab"]
    async with open_supervisor(*children, backoff=SLOW) as tree:
        await crash(tree["a"])
        assert names_of(tree).broadcast("group", "hello") == 2
        await quiet()
        assert HEARD == [("b", 1, "hello")]
        await trio.sleep(11)
        assert HEARD == [("b", 1, "hello"), ("a", 2, "hello")]


async def test_a_broadcast_during_a_restart_meets_the_bound_of_the_mailbox(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spec = child(Member, "group", id="a", capacity=2)
    async with open_supervisor(spec, backoff=SLOW) as tree:
        await crash(tree["a"])
        names = names_of(tree)
        for number in range(2):
            names.broadcast("group", number)
        with pytest.raises(MailboxFull):
            names.broadcast("group", "too many")
        await trio.sleep(11)
        assert HEARD == [("a", 2, 0), ("a", 2, 1)]


async def test_a_member_that_does_not_come_back_has_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spec = supervisor(
        *(child(Member, "group", id=each) for each in "ab"),
        id="sub",
        intensity=0,
        restart="temporary",
    )
    async with open_supervisor(spec, child(Member, "group", id="c")) as tree:
        await crash(tree.branch("sub")["a"])
        assert names_of(tree).members("group") == (tree["c"],)
        await tree.terminate_child("c")
        assert names_of(tree).members("group") == ()
        assert len(names_of(tree)) == 0


# ---- pools and partitions


class Writes(Actor):
    """Says by which worker, and in which life, a message was handled."""

    def receive(self, message: Any) -> tuple[str, int]:
        if message[0] == "crash":
            raise ValueError(message)
        return self.ref.path.rpartition("/")[2], self.ref.incarnation


async def test_a_router_goes_on_over_restarts_of_workers_and_of_their_pool(
    autojump_clock: trio.testing.MockClock,
) -> None:
    pool = workers(Writes, count=3, id="pool", intensity=1)
    async with open_supervisor(pool, intensity=20) as tree:
        router = tree.router("pool")
        for broken in range(6):  # every second one, the pool gives up
            router.tell(("crash", broken))
            await quiet()
            answers = [await router.ask(("who", n)) for n in range(6)]
            assert sorted({name for name, _ in answers}) == ["1", "2", "3"]
        assert tree["pool"].incarnation == 4
        assert [each.path[-1] for each in router.workers] == ["1", "2", "3"]


@pytest.mark.parametrize("how", ["worker", "pool"])
async def test_by_key_stays_with_the_same_worker_over_restarts(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    pool = workers(Writes, count=4, id="pool", intensity=100)
    async with open_supervisor(pool, intensity=100) as tree:
        router = tree.router("pool", "by_key", key=lambda message: message[1])
        before = {key: (await router.ask(("who", key)))[0] for key in range(40)}
        for key in range(5):
            if how == "worker":
                router.tell(("crash", key))
            else:
                tree["pool"].kill()
            await quiet()
            after = {key: (await router.ask(("who", key)))[0] for key in range(40)}
            assert after == before


async def test_messages_by_key_keep_their_order_over_a_restart_of_the_pool(
    autojump_clock: trio.testing.MockClock,
) -> None:
    pool = workers(Member, count=2, id="pool")
    async with open_supervisor(pool, backoff=SLOW) as tree:
        router = tree.router("pool", "by_key", key=lambda message: "the same")
        router.tell("wait")
        await quiet()
        router.tell("before")
        tree["pool"].kill()
        await quiet()
        router.tell("between")
        await trio.sleep(11)
        router.tell("after")
        await quiet()
        assert [(life, what) for _, life, what in HEARD] == [
            (2, "before"),
            (2, "between"),
            (2, "after"),
        ]


async def test_a_broadcast_to_a_pool_reaches_those_between_two_lives(
    autojump_clock: trio.testing.MockClock,
) -> None:
    pool = workers(Writes, count=3, id="pool", backoff=SLOW)
    async with open_supervisor(pool) as tree:
        everybody = tree.router("pool", "broadcast")
        everybody.workers[1].tell(("crash", 1))
        await quiet()
        assert await everybody.ask(("who", 0)) == [("1", 1), ("2", 2), ("3", 1)]
        assert trio.current_time() >= 10


async def test_a_key_stays_in_its_partition_whichever_gives_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spec = partitions(child(Member), count=4, intensity=0)
    async with open_supervisor(spec, intensity=100) as tree:
        users = tree.partitions("partitions")
        refs = {str(n): await users.get_or_start(str(n)) for n in range(20)}
        homes = {key: users.partition(key).ref for key in refs}
        await crash(refs["0"])  # and its partition gives up, and is started anew, empty
        assert {key: users.partition(key).ref for key in refs} == homes
        lost = {key for key, home in homes.items() if home == homes["0"]}
        assert {key for key, ref in refs.items() if not ref.is_alive} == lost
        again = {key: await users.get_or_start(key) for key in refs}
        assert {key for key, ref in again.items() if ref != refs[key]} == lost
        assert {key: users.partition(key).ref for key in refs} == homes
