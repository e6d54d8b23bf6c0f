"""Goal line F2: whatever a program does to a supervisor, it does what the rules say.

Programs of up to 30 commands are drawn, with the seed of trio's scheduler and that
of the pump; :mod:`model` runs the rules of :mod:`model_rules` beside them.  After
every burst of commands the order of starts and ends, who is up in which life, the
answers, the reports and their reasons must be ones that the rules allow.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from standby.testing import z_checks

from .model import Spec
from .model_run import Program, Runner

RESTARTS = ("permanent", "permanent", "transient", "temporary")
EXTRAS = ("e", "f")
SECONDS = (0.0, 0.0, 0.0, 0.125, 0.25, 0.375, 0.5, 1.0, 1.5, 2.0, 3.0, 3.125, 4.0, 4.125)
"""Back-off 0.5, 1, 2; window 4; streaks end after 3: at, and just over, each of them."""
TOLD = ("ask", "die", "die", "die", "normal", "shutdown", "hang", "ask")
MODES = ("ok", "fail", "ignore", "slow", "slow fail", "ok")
CALLED = ("which", "start", "terminate", "restart", "delete", "count", "start", "terminate")
KINDS = ("tell", "call", "tell", "call", "script", "kill", "stop", "call", "tell")
MOST = 30

# Numbers, and what they stand for is worked out below: Hypothesis draws them quickly,
# and makes them small where a program fails.
WORKER = st.tuples(
    st.sampled_from(("plain", "hooked", "hooked")),
    st.sampled_from(RESTARTS),
    st.sampled_from((1.0, 1.0, 0.0, math.inf)),
    st.booleans(),
    st.booleans(),
    st.sampled_from((False, False, True)),
)
SUPERVISOR = st.tuples(
    st.sampled_from(("one_for_one", "one_for_all", "rest_for_one", "dynamic")),
    st.sampled_from((1, 0, 1, 2, 3)),
    st.sampled_from((False, False, True)),
    st.sampled_from(("never", "never", "any_significant", "all_significant")),
    st.sampled_from((math.inf, 1.0)),
    st.sampled_from((math.inf, 2)),
    st.sampled_from(RESTARTS),
    st.lists(WORKER, min_size=1, max_size=3),
)
NESTED = st.one_of(st.none(), st.tuples(st.integers(0, 3), SUPERVISOR))
ACTION = st.tuples(
    st.sampled_from(KINDS), st.integers(0, 11), st.integers(0, 11), st.integers(0, 11)
)
BURST = st.tuples(st.sampled_from(SECONDS), st.lists(ACTION, min_size=1, max_size=3))
DRAWN = st.tuples(
    SUPERVISOR,
    NESTED,
    st.tuples(WORKER, WORKER),
    st.lists(BURST, min_size=1, max_size=20),
    st.integers(0, 2**16),
    st.integers(0, 2**16),
    st.sampled_from((1, 1, 2, 512)),
)


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """Thousands of expected errors are not worth their text."""
    logger = logging.getLogger("standby.supervision")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def worker(name: str, drawn: Any, may_be_significant: bool) -> Spec:
    kind, restart, shutdown, significant, slow_stop, fails = drawn
    return Spec(
        name,
        kind,
        restart,
        shutdown,
        may_be_significant and restart != "permanent" and significant,
        kind == "hooked" and slow_stop,
        fails,
    )


def sup(name: str, drawn: Any, kids: str, nested: Any = None) -> Spec:
    strategy, intensity, has_backoff, auto, shutdown, most, restart, children = drawn
    if strategy == "dynamic":
        auto, children, nested = "never", children[:1], None
    specs = [worker(key, each, auto != "never") for key, each in zip(kids, children, strict=False)]
    if nested is not None:
        specs.insert(nested[0], sup("n", nested[1], "xy"))
    return Spec(
        name,
        "sup",
        restart if name != "sup" else "temporary",
        shutdown,
        strategy=strategy,
        intensity=intensity,
        has_backoff=has_backoff,
        auto_shutdown=auto,
        most=most,
        children=tuple(specs),
    )


def program(drawn: Any) -> Program:
    """The program that stands behind the numbers."""
    top, nested, extras, bursts, scheduler, pump, budget = drawn
    spec = sup("sup", top, "abc", nested)
    sups: dict[tuple[str, ...], Spec] = {("sup",): spec}
    sups.update({("sup", each.id): each for each in spec.children if each.kind == "sup"})
    keys = {
        path: [*(each.id for each in of.children if of.strategy != "dynamic"), *EXTRAS]
        for path, of in sups.items()
    }
    kids = [(*path, key) for path, names in keys.items() for key in names if key != "n"]
    ids = sorted({each[-1] for each in kids})

    def action(drawn: Any) -> Any:
        kind, a, b, c = drawn
        path = kids[a % len(kids)]
        match kind:
            case "tell":
                return TOLD[b % len(TOLD)], path, c % 2 == 0
            case "call":
                owner = list(sups)[a % len(sups)]
                names = keys[owner]
                return "call", owner, CALLED[b % len(CALLED)], names[c % len(names)]
            case "script":
                return "script", (ids[a % len(ids)],), MODES[b % len(MODES)]
            case _:
                everybody = [*kids, *sups]
                return kind, everybody[a % len(everybody)]

    done, number = [], 0
    for seconds, actions in bursts:
        number += len(actions)
        if number <= MOST:
            done.append((seconds, tuple(action(each) for each in actions)))
    return Program(
        spec,
        tuple(worker(key, each, False) for key, each in zip(EXTRAS, extras, strict=True)),
        tuple(done),
        scheduler,
        pump,
        budget,
    )


PROGRAMS = DRAWN.map(program)


CHECKED = itertools.count()
"""Programs run so far."""


def check(program: Program) -> Runner:
    runner = Runner(program)
    try:
        # They look through all objects that there are, which takes longer than a program.
        with z_checks() if next(CHECKED) % 64 == 0 else contextlib.nullcontext():
            runner.run()
    except BaseException:
        print(f"scheduler seed {program.scheduler}, pump seed {program.pump}")
        raise
    return runner


def size(default: int) -> int:
    """How many programs; STANDBY_MODEL_PROGRAMS sets another number."""
    return int(os.environ.get("STANDBY_MODEL_PROGRAMS", default))


PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
COMMON: Any = {
    "deadline": None,
    "database": None,
    "phases": PHASES,
    "suppress_health_check": list(HealthCheck),
    "print_blob": False,
}


@settings(max_examples=size(250), **COMMON)
@given(PROGRAMS)
def test_supervisors_do_what_the_rules_say(program: Program) -> None:
    check(program)


def test_programs_of_a_seed_do_what_the_rules_say() -> None:
    check_seeds(range(size(600)))


@pytest.mark.deep
def test_twenty_thousand_programs_do_what_the_rules_say() -> None:
    check_seeds(range(1_000_000, 1_000_000 + size(20_000)))


@pytest.mark.deep
@settings(max_examples=size(5_000), **COMMON)
@given(PROGRAMS)
def test_five_thousand_drawn_programs_do_what_the_rules_say(program: Program) -> None:
    check(program)


# ---- programs of a seed: quicker, and spread evenly, where Hypothesis likes the edges


def check_seeds(seeds: range) -> None:
    for seed in seeds:
        drawn = program(drawn_from(random.Random(seed)))
        if failure_of(drawn) is not None:
            small = shrunk(drawn)
            failure = failure_of(small)
            assert failure is not None
            failure.add_note(f"seed {seed}, made smaller: {small}")
            raise failure


def drawn_from(source: random.Random) -> Any:
    """What PROGRAMS would be made of, drawn evenly."""

    def one(of: Any) -> Any:
        return source.choice(of)

    def number() -> int:
        return source.randrange(12)

    def any_worker() -> Any:
        return (
            one(("plain", "hooked", "hooked")),
            one(RESTARTS),
            one((1.0, 1.0, 0.0, math.inf)),
            one((False, True)),
            one((False, True)),
            one((False, False, True)),
        )

    def any_supervisor() -> Any:
        return (
            one(("one_for_one", "one_for_all", "rest_for_one", "dynamic")),
            one((1, 0, 2, 3, 3)),
            one((False, False, True)),
            one(("never", "never", "any_significant", "all_significant")),
            one((math.inf, 1.0)),
            one((math.inf, 2)),
            one(RESTARTS),
            [any_worker() for _ in range(one((1, 2, 3)))],
        )

    return (
        any_supervisor(),
        (one((0, 1, 2, 3)), any_supervisor()) if one((False, True)) else None,
        (any_worker(), any_worker()),
        [
            (
                one(SECONDS),
                [(one(KINDS), number(), number(), number()) for _ in range(one((1, 2, 3)))],
            )
            for _ in range(one((1, 2, 3, 5, 10, 15)))
        ],
        source.randrange(2**16),
        source.randrange(2**16),
        one((1, 1, 2, 512)),
    )


def failure_of(program: Program) -> BaseException | None:
    """What goes wrong in `program`, if anything does."""
    try:
        check(program)
    # Whatever it is: it is raised again, of the smallest program.
    except Exception as error:
        return error
    return None


def shrunk(program: Program) -> Program:
    """A smaller program that fails as well: each action that it can do without left out."""
    at = 0
    while at < sum(len(actions) for _, actions in program.bursts):
        less = without(program, at)
        if failure_of(less) is not None:
            program = less
        else:
            at += 1
    return program


def without(program: Program, at: int) -> Program:
    """`program` without its action number `at`."""
    bursts = []
    for seconds, actions in program.bursts:
        kept = tuple(each for number, each in enumerate(actions) if number != at)
        at -= len(actions)
        if kept or seconds:
            bursts.append((seconds, kept))
    return evolve(program, bursts=tuple(bursts))
