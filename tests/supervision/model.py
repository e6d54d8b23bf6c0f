"""Runs the rules of :mod:`model_rules`: every outcome that some order of events can have.

A :class:`State` is a tree of :class:`Node`, one for each child that is known.  What
can happen next is a list of moves; :func:`explore` takes them in every order, and
keeps those orders whose diary is the one that was observed.  So the model says
nothing about who is first where nobody promised that, and everything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

from attrs import define, evolve, field, fields, frozen

from . import model_rules as rules

Entry: TypeAlias = tuple[float, str, str, str]
"""Time, what, whose path, details."""
Move: TypeAlias = tuple[Any, ...]
Path: TypeAlias = tuple[str, ...]


@frozen
class Spec:
    """What a child is; supervisors have :attr:`children`, workers do not."""

    id: str
    kind: str = "plain"
    """``"plain"``: no hooks; ``"hooked"``; ``"sup"``."""
    restart: str = "permanent"
    shutdown: float = 1.0
    significant: bool = False
    slow_stop: bool = False
    fails_when_down: bool = False
    strategy: str = "one_for_one"
    intensity: int | None = 1
    has_backoff: bool = False
    auto_shutdown: str = "never"
    most: float = math.inf
    children: tuple[Spec, ...] = ()

    @property
    def can_hang(self) -> bool:
        """Whether it has a handler that can wait, and a stop that ends that."""
        return self.kind == "hooked" and self.shutdown < math.inf


class Deviates(Exception):
    """Raised where the model would write another entry than was observed."""


@define(eq=False)
class Node:
    """One child: what its supervisor knows of it, and its life."""

    spec: Spec
    above: Node | None = None
    # ---- as its supervisor knows it
    state: str = "undefined"
    token: int = 0
    """Number of the attempt that is due."""
    ended: tuple[str, int] | None = None
    """Reason and number of a life whose end is not dealt with yet."""
    is_expected: bool = False
    comes_back: bool = False
    streak: int = 0
    started_at: float = 0.0
    lived: float = 0.0
    is_static: bool = False
    """Whether the next life of its supervisor brings it back, with its mail."""
    # ---- its life
    life: int = 0
    phase: str = "down"
    """``"down"``, ``"starting"``, ``"up"``."""
    is_open: bool = False
    """Whether messages are taken, for this life or another."""
    is_stopping: bool = False
    is_doomed: bool = False
    is_owed: bool = True
    """Whether the stop hook has yet to run."""
    busy: str = ""
    """``"hang"``, ``"start"`` or ``"hook"``: what it is at, and takes time."""
    until: float = math.inf
    deadline: float = math.inf
    outcome: str = ""
    """How the start hook goes."""
    is_starters: bool = False
    """Whether its start has failed while its supervisor waited for it, who alone is told."""
    reason: str = ""
    mail: list[Move] = field(factory=list)
    serving: int | None = None
    """The ask that it hangs on."""
    farewell: int | None = None
    # ---- as a supervisor
    below: dict[str, Node] = field(factory=dict)
    """Children of any life that come back in the next one."""
    may_return: bool | None = None
    """Whether this life, which ends, is followed by another; None until that is asked."""
    kids: dict[str, Node] = field(factory=dict)
    times: list[float] = field(factory=list)
    agenda: list[Move] = field(factory=list)
    waiting: tuple[str, str] | None = None
    heard: str = ""
    """What it waited for."""
    calling: int | None = None
    is_cut: bool = False
    timers: list[tuple[float, Move]] = field(factory=list)
    odd: dict[str, tuple[Path, int]] = field(factory=dict)
    """Unexpected ends at the stop of a dynamic one: by reason, who was first, and how many."""

    @property
    def path(self) -> Path:
        return (*(self.above.path if self.above is not None else ()), self.spec.id)

    @property
    def is_alive(self) -> bool:
        return self.phase != "down"

    @property
    def is_dynamic(self) -> bool:
        return self.spec.strategy == "dynamic"

    def clone(self, above: Node | None) -> Node:
        """A copy, with all below."""
        new = object.__new__(Node)
        for name in _FIELDS:
            value = getattr(self, name)
            kind = type(value)
            if kind is list or (kind is dict and name not in _NODES):
                value = value.copy()
            setattr(new, name, value)
        new.above = above
        new.kids = {key: each.clone(new) for key, each in self.kids.items()}
        new.below = {
            key: new.kids[key] if self.kids.get(key) is each else each.clone(new)
            for key, each in self.below.items()
        }
        return new

    def walk(self) -> Iterator[Node]:
        """This one, and all below."""
        yield self
        for each in self.kids.values():
            yield from each.walk()

    def key(self) -> Any:
        """What tells it from others."""
        values: list[Any] = []
        for name in _FIELDS:
            if name == "above" or name in _NODES:
                continue
            value = getattr(self, name)
            kind = type(value)
            if kind is list:
                value = tuple(value)
            elif kind is dict:
                value = tuple(value.items())
            values.append(value)
        kids = tuple((key, each.key()) for key, each in self.kids.items())
        below = tuple(
            (key, each.key()) for key, each in self.below.items() if self.kids.get(key) is not each
        )
        return tuple(values), kids, below


_NODES = ("kids", "below")
_FIELDS = tuple(each.name for each in fields(Node))


@define(eq=False)
class State:
    """The whole tree, the clock, and what of the observed diary has been explained."""

    root: Node
    specs: dict[str, Spec]
    now: float = 0.0
    scripts: dict[str, str] = field(factory=dict)
    answers: dict[int, str] = field(factory=dict)
    seen: int = 0
    acted: int = 0

    def clone(self) -> State:
        """A copy."""
        return State(
            self.root.clone(None),
            self.specs,
            self.now,
            self.scripts.copy(),
            self.answers.copy(),
            self.seen,
            self.acted,
        )

    def key(self) -> Any:
        """What tells it from others."""
        return (
            self.now,
            self.seen,
            self.acted,
            tuple(sorted(self.answers.items())),
            tuple(sorted(self.scripts.items())),
            self.root.key(),
        )

    def find(self, path: Path) -> Node:
        """The node at `path`."""
        node = self.root
        for each in path[1:]:
            node = node.kids[each]
        return node

    def reach(self, path: Path) -> Node | None:
        """The node at `path`, if all above it are up and it has ever run."""
        node = self.root
        if len(path) == 1:
            return node if node.is_alive else None
        for each in path[1:]:
            if not node.is_alive or each not in node.kids:
                return None
            node = node.kids[each]
        return node if node.life else None

    def alive(self) -> dict[str, int]:
        """Who is alive, and in which life."""
        return {"/".join(each.path): each.life for each in self.root.walk() if each.is_alive}


class Run:
    """Moves of one state, against an observed diary."""

    def __init__(self, state: State, diary: list[Entry], actions: list[Move]) -> None:
        self.state = state
        self.diary = diary
        self.actions = actions

    def write(self, what: str, path: Path, details: str = "") -> None:
        """Write an entry, which must be the next that was observed."""
        state = self.state
        entry = (state.now, what, "/".join(path), details)
        if state.seen >= len(self.diary) or self.diary[state.seen] != entry:
            raise Deviates(entry)
        state.seen += 1

    # ---- what can happen

    def moves(self) -> list[Move]:
        """All that can happen now."""
        moves: list[Move] = []
        for node in self.state.root.walk():
            if node.is_alive:
                move = self._move_of(node)
                if move:
                    moves.append((move, node.path))
                if node.until <= self.state.now:
                    moves.append(("over", node.path))
                if node.deadline <= self.state.now and not node.is_doomed:
                    moves.append(("overdue", node.path))
                moves.extend(
                    ("timer", node.path, each) for each in node.timers if each[0] <= self.state.now
                )
        if self.state.acted < len(self.actions):
            moves.append(("act", ()))
        return moves

    def next_time(self) -> float:
        """When something happens by itself."""
        times = [math.inf]
        for node in self.state.root.walk():
            if node.is_alive:
                times += [node.until, node.deadline if not node.is_doomed else math.inf]
                times += [each[0] for each in node.timers]
        return min(times)

    def _move_of(self, node: Node) -> str:
        if node.is_doomed:
            return "" if any(each.is_alive for each in node.kids.values()) else "die"
        if node.spec.kind != "sup":
            if node.busy:
                return ""
            if node.is_stopping:
                return "finish"
            if node.phase == "starting":
                return "begin"
            return "turn" if node.mail else ""
        if node.is_cut:
            return "cut"
        if node.waiting is not None:
            return "resume" if node.heard else ""
        if node.agenda:
            return "step"
        if node.is_stopping:
            return "finish" if self._can_finish(node) else ""
        return "take" if node.mail and node.phase == "up" else ""

    def _can_finish(self, node: Node) -> bool:
        alive = [each for each in node.kids.values() if each.is_alive]
        if not alive:
            return True
        for each in reversed(node.kids.values()):
            if each is alive[-1] and not node.is_dynamic:
                break
            if not each.is_alive and each.is_open and not self._waits_for_return(each):
                return True
        for each in alive if node.is_dynamic else alive[-1:]:
            # To be stopped is a kill for a brutal kill, also on its own way out.
            if not each.is_doomed and (not each.is_stopping or not each.spec.shutdown):
                return True
        return False

    def do(self, move: Move) -> None:
        """Let `move` happen."""
        kind = move[0]
        if kind == "act":
            self._act()
            return
        node = self.state.find(move[1])
        if kind == "timer":
            node.timers.remove(move[2])
            node.mail.append(move[2][1])
        else:
            getattr(self, f"_{kind}")(node)

    # ---- the program's actions

    def _act(self) -> None:
        number = self.state.acted
        self.state.acted += 1
        _, what, path, *rest = self.actions[number]
        number = self.actions[number][0]
        if what == "script":
            self.state.scripts[path[0]] = rest[0]
            self.write("act", (str(number),), "done")
            return
        node = self.state.reach(path)
        if what == "call" and (node is None or not node.is_alive):
            node = None
        self.write("act", (str(number),), "done" if node is not None else "nobody")
        if node is None:
            return
        if what == "stop":
            self._stop(node, "shutdown")
        elif what == "kill":
            self._kill(node)
        elif what == "call":
            node.mail.append(("call", number, *rest))
        else:
            message = what if what != "hang" or node.spec.can_hang else "ask"
            self._put(node, (message, number if rest[0] else None))

    def _put(self, node: Node, message: Move) -> None:
        number = message[1]
        fails = node.spec.fails_when_down and not node.is_alive and number is not None
        if not node.is_open or fails:
            self._answer(number, "stopped")
        else:
            node.mail.append(message)

    def _answer(self, number: int | None, answer: str) -> None:
        if number is not None:
            assert number not in self.state.answers, "answered twice"
            self.state.answers[number] = answer

    # ---- workers

    def _begin(self, node: Node) -> None:
        """The start hook of a worker begins."""
        node.outcome, seconds = rules.START_HOOK[self.state.scripts.get(node.spec.id, "ok")]
        if seconds:
            node.busy, node.until = "start", self.state.now + seconds
        else:
            self._began(node)

    def _began(self, node: Node) -> None:
        if node.outcome == "up":
            self._started(node)
        else:
            self._crash(node)

    def _started(self, node: Node) -> None:
        node.phase = "up"
        assert node.above is not None
        self._hear(node.above, ("start", node.spec.id), "up")

    def _crash(self, node: Node) -> None:
        node.reason = "crash"
        above = node.above
        node.is_starters = (
            node.phase == "starting"
            and above is not None
            and above.waiting == ("start", node.spec.id)
            and not above.heard
        )
        self._stop(node, "crash", own=True)

    def _turn(self, node: Node) -> None:
        what, number = node.mail.pop(0)
        ends, answer = rules.MESSAGE[what]
        if answer == "value":
            answer = f"value {node.life}"
        if ends is None:
            self._answer(number, answer)
        elif ends == "":
            node.busy, node.serving = "hang", number
        elif ends == "crash":
            self._answer(number, answer)
            self._crash(node)
        else:
            node.farewell = number
            self._stop(node, ends, own=True)

    def _over(self, node: Node) -> None:
        """What takes time is over."""
        busy, node.busy, node.until = node.busy, "", math.inf
        if busy == "start":
            self._began(node)
        else:
            self._end(node)

    # ---- ends

    def _stop(self, node: Node, reason: str, *, own: bool = False) -> None:
        """Begin the ordered stop of `node`."""
        if not node.is_alive or node.is_doomed:
            return
        if node.spec.shutdown == 0 and not own:
            self._kill(node)
            return
        if node.is_stopping:
            return
        node.is_stopping = True
        node.reason = node.reason or reason
        if node.spec.shutdown:
            node.deadline = self.state.now + node.spec.shutdown
        if node.spec.kind == "sup" and not own:
            node.is_cut = bool(node.agenda) or node.waiting is not None

    def _overdue(self, node: Node) -> None:
        self._kill(node)

    def _kill(self, node: Node) -> None:
        for each in node.walk():
            if each.is_alive and not each.is_doomed:
                each.is_doomed = True
                if each.reason != "crash":
                    each.reason = "killed"
                each.until = each.deadline = math.inf

    def _die(self, node: Node) -> None:
        self._end(node)

    def _finish(self, node: Node) -> None:
        """Take the next step of a stop."""
        kids = list(reversed(node.kids.values()))
        if node.spec.kind == "sup":
            if node.is_dynamic:
                for each in kids:
                    if not each.is_alive:
                        self._part_with(each)
                    self._stop(each, "shutdown")
            else:
                for each in kids:
                    if each.is_alive:
                        self._stop(each, "shutdown")
                        return
                    self._part_with(each)
            if any(each.is_alive for each in kids):
                return
            if node.phase == "up":
                self._report_at_the_end(node)
        elif node.phase == "up" and node.spec.slow_stop and node.is_owed:
            node.is_owed = False
            node.busy, node.until = "hook", self.state.now + rules.SLOW_STOP
            return
        self._end(node)

    def _report_at_the_end(self, node: Node) -> None:
        for each in node.kids.values():
            if each.ended is not None:
                self._stopped_with_all(node, each, each.ended[0])
                each.ended = None
        for reason, (first, number) in node.odd.items():
            self.write("shutdown_error", first, f"{reason} {number}")

    def _stopped_with_all(self, node: Node, kid: Node, reason: str) -> None:
        if reason in rules.EXPECTED[kid.spec.restart, kid.spec.shutdown == 0]:
            return
        if node.is_dynamic:
            first, number = node.odd.get(reason, (kid.path, 0))
            node.odd[reason] = (first, number + 1)
        else:
            self.write("shutdown_error", kid.path, f"{reason} 1")

    def _end(self, node: Node) -> None:
        above = node.above
        reason = node.reason
        never_started = node.phase == "starting"
        is_kept = above is not None and self._is_kept(above, node, reason)
        node.phase = "down"
        self._answer(node.serving, "stopped")
        self._answer(node.farewell, f"value {node.life}")
        self._answer(node.calling, "stopped")
        node.serving = node.farewell = node.calling = None
        node.busy, node.until, node.deadline = "", math.inf, math.inf
        node.mail = [each for each in node.mail if each[0] not in ("ended", "attempt")]
        for each in node.kids.values():
            self._part_with(each)
        node.kids = {}
        node.agenda, node.timers, node.waiting, node.is_cut = [], [], None, False
        node.heard = ""
        if not is_kept:
            self._close(node)
        self.write("down", node.path, reason)
        if above is None:
            if never_started:
                self._answer(-1, "StartError")
            return
        waited = ("start", node.spec.id)
        if node.is_expected or above.is_doomed or node.is_starters:
            pass
        elif above.is_stopping:
            node.ended = None
            self._stopped_with_all(above, node, reason)
        elif never_started:
            pass
        else:
            node.lived = self.state.now - node.started_at
            if is_kept:
                node.state = "restarting"
            node.ended = (reason, node.life)
            above.mail.append(("ended", node.spec.id, node.life))
        if never_started:
            self._hear(above, waited, "ignored" if node.outcome == "ignored" else "failed")
        self._hear(above, ("stop", node.spec.id), reason)

    def _is_kept(self, above: Node, node: Node, reason: str) -> bool:
        """Whether what waits for it may wait for another life."""
        if above.is_stopping or above.is_doomed:
            return node.is_static and self._may_return(above)
        if node.is_expected:
            return node.comes_back
        manner = "loud" if reason in rules.LOUD else "quiet"
        return (
            node.state == "restarting" or rules.ON_END[node.spec.restart, manner].then == "restart"
        )

    def _may_return(self, node: Node) -> bool:
        """Whether a supervisor that ends is to live again, and what comes back with it."""
        if node.may_return is None:
            above, reason = node.above, node.reason or "killed"
            node.may_return = above is not None and self._is_kept(above, node, reason)
        return node.may_return

    def _part_with(self, node: Node) -> None:
        """Give up one that does not live, or leave it to the next life of its supervisor."""
        if not self._waits_for_return(node):
            self._close(node)

    def _waits_for_return(self, node: Node) -> bool:
        return node.is_static and node.above is not None and self._may_return(node.above)

    def _close(self, node: Node) -> None:
        """Refuse what waits, and all that comes; also of those that come back with it."""
        if not node.is_alive:
            for each in node.below.values():
                self._close(each)
            node.is_open = False
            mail, node.mail = node.mail, []
            for message in mail:
                self._answer(message[1], "stopped")

    # ---- supervisors

    @staticmethod
    def _hear(above: Node, what: tuple[str, str], how: str) -> None:
        if above.waiting == what and not above.heard:
            above.heard = how

    def _cut(self, node: Node) -> None:
        """What it is at is cut: it is stopped."""
        if node.waiting is not None and node.waiting[0] == "stop":
            kid = node.kids[node.waiting[1]]
            kid.is_expected = kid.comes_back = False
        self._answer(node.calling, "stopped")
        node.calling = None
        node.agenda, node.waiting, node.heard, node.is_cut = [], None, "", False

    def _resume(self, node: Node) -> None:
        assert node.waiting is not None
        what, key = node.waiting
        heard, node.waiting, node.heard = node.heard, None, ""
        if what == "start":
            self._after_start(node, key, heard)
        else:
            node.kids[key].is_expected = False
            self._after_stop(node, key, heard)
        self._step(node, True)

    def _step(self, node: Node, has_stepped: bool = False) -> None:
        """Do what is on the agenda, up to the next wait."""
        while node.agenda and node.waiting is None:
            step = node.agenda.pop(0)
            getattr(self, "_do_" + step[0].replace(" ", "_"))(node, *step[1:])
        if not node.agenda and node.waiting is None:
            if node.phase == "starting" and not node.is_stopping:
                node.phase = "up"
                if node.above is not None:
                    self._hear(node.above, ("start", node.spec.id), "up")
                else:
                    self._answer(-1, "Started")
            node.calling = None

    def _take(self, node: Node) -> None:
        """Serve what has waited longest."""
        item = node.mail.pop(0)
        if item[0] == "ended":
            kid = node.kids.get(item[1])
            if kid is None or kid.ended is None or kid.ended[1] != item[2]:
                return
            (reason, _), kid.ended = kid.ended, None
            self._judge(node, kid, reason)
        elif item[0] == "attempt":
            _, key, token, counts = item
            kid = node.kids.get(key)
            if kid is None or kid.state != "restarting" or kid.token != token:
                return
            if counts and not self._count(node, kid):
                return
            self._restart(node, kid)
        else:
            self._call(node, *item[1:])
        self._step(node)

    def _judge(self, node: Node, kid: Node, reason: str) -> None:
        manner = "loud" if reason in rules.LOUD else "quiet"
        rule = rules.ON_END[kid.spec.restart, manner]
        if rule.report:
            self.write("child_terminated", kid.path, reason)
        if rule.then == "restart":
            if node.spec.has_backoff and kid.lived > rules.RESET_AFTER:
                kid.streak = 0
            delay = self._delay(node, kid)
            if not self._count(node, kid):
                return
            kid.state = "restarting"
            if delay:
                self._schedule(node, kid, delay, counts=False)
            else:
                self._restart(node, kid)
            return
        others = any(
            each.spec.significant and each.state != "undefined" and each is not kid
            for each in node.kids.values()
        )
        self._do_forget(node, kid.spec.id)
        if kid.spec.significant and rules.CLOSES[node.spec.auto_shutdown, others]:
            self._stop(node, "shutdown", own=True)

    def _count(self, node: Node, kid: Node) -> bool:
        """Count a restart; returns whether it may be."""
        node.times = rules.counting(node.times, self.state.now)
        most = node.spec.intensity
        if most is None or len(node.times) <= most:
            return True
        why = f"child {kid.spec.id}: {len(node.times)} restarts within 4 s, {most} allowed"
        self.write("gave_up", kid.path, why)
        # First: what waits for the child may be for a life that its next life begins.
        self._stop(node, "shutdown", own=True)
        self._do_forget(node, kid.spec.id)
        return False

    def _delay(self, node: Node, kid: Node) -> float:
        if not node.spec.has_backoff:
            return 0.0
        kid.streak += 1
        return rules.backoff(kid.streak)

    def _schedule(self, node: Node, kid: Node, delay: float, *, counts: bool) -> None:
        kid.token += 1
        item = ("attempt", kid.spec.id, kid.token, counts)
        if delay:
            node.timers.append((self.state.now + delay, item))
        else:
            node.mail.append(item)

    def _restart(self, node: Node, kid: Node) -> None:
        who = rules.concerned(node.spec.strategy, list(node.kids), kid.spec.id)
        for key in reversed(who):
            if key != kid.spec.id:
                restart = node.kids[key].spec.restart
                back = rules.STOPPED_FOR_RESTART[restart]
                node.agenda.append(("stop", key, back))
                if not back:
                    node.agenda.append(("forget", key))
        node.agenda += [("start", key, "again") for key in who]

    def _call(self, node: Node, number: int, what: str, key: str) -> None:
        node.calling = number
        if what == "which":
            shown = [f"{k} {each.state}" for k, each in reversed(node.kids.items())]
            self._do_answer(node, number, f"which {shown}")
            return
        if what == "count":
            kids = node.kids.values()
            sups = sum(each.spec.kind == "sup" for each in kids)
            active = sum(each.state == "running" and each.is_alive for each in kids)
            specs = 1 if node.is_dynamic else len(kids)
            counted = [specs, active, sups, len(kids) - sups]
            self._do_answer(node, number, f"count {counted}")
            return
        if node.is_dynamic and what == "start" and len(node.kids) >= node.spec.most:
            self._do_answer(node, number, "TooMany")
            return
        kid = node.kids.get(key)
        state = kid.state if kid is not None else "unknown"
        table = rules.CALLS_OF_DYNAMIC if node.is_dynamic else rules.CALLS
        steps, answer = table[what, state]
        for step in steps:
            match step:
                case "start":
                    node.agenda.append(("start", key, what))
                case "stop":
                    node.agenda.append(("stop", key, False))
                case _:
                    node.agenda.append((step, key))
        if answer:
            node.agenda.append(("answer", number, answer))

    # ---- steps of the agenda

    def _do_answer(self, node: Node, number: int, answer: str) -> None:
        node.calling = None
        self._answer(number, answer)

    def _do_add(self, node: Node, key: str) -> None:
        of = node.spec.children[0] if node.is_dynamic else self.state.specs[key]
        node.kids[key] = Node(evolve(of, id=key), node)

    def _do_bring(self, node: Node, key: str) -> None:
        """Add a child that stands in the specification, as the last life left it."""
        kid = node.below.get(key)
        if kid is None:
            kid = Node(self.state.specs[key], node)
            kid.is_static = rules.COMES_BACK[kid.spec.restart]
        else:
            kid.state, kid.ended, kid.streak = "undefined", None, 0
            kid.is_expected = kid.comes_back = False
        node.kids[key] = kid

    def _do_start(self, node: Node, key: str, why: str) -> None:
        kid = node.kids.get(key)
        if kid is None:
            return
        node.agenda.insert(0, ("started for", key, why))
        outcome, _ = rules.START_HOOK[self.state.scripts.get(key, "ok")]
        if kid.spec.kind == "plain" and outcome != "up":
            self._after_start(node, key, outcome)
            return
        kid.life += 1
        if kid.is_static:
            node.below[key] = kid
        kid.is_open, kid.is_owed, kid.outcome, kid.reason = True, True, "", ""
        kid.is_stopping = kid.is_doomed = kid.is_starters = False
        if kid.spec.kind == "plain":
            kid.phase = "up"
            node.waiting, node.heard = ("start", key), "up"  # it may act before that is noted
            return
        kid.phase = "starting"
        node.waiting = ("start", key)
        if kid.spec.kind == "sup":
            birth(kid)

    def _after_start(self, node: Node, key: str, outcome: str) -> None:
        _, _, why = node.agenda.pop(0)
        kid = node.kids[key]
        steps, answer = rules.AFTER_START[why, outcome]
        for step in steps:
            match step:
                case "up info" | "up debug":
                    kid.state = "running"
                    kid.started_at = self.state.now
                    self.write("up", kid.path, step.removeprefix("up "))
                case "report":
                    self.write("start_error", kid.path)
                case "try later":
                    kid.state = "restarting"
                    node.agenda = []
                    self._schedule(node, kid, self._delay(node, kid), counts=True)
                case "give up mail":
                    kid.state = "undefined"
                    self._close(kid)
                case "fail":
                    node.agenda = []
                    self._crash(node)
                case "drop":
                    self._do_drop(node, key)
                case _:
                    self._do_forget(node, key)
        if answer:
            assert node.calling is not None
            self._do_answer(node, node.calling, answer)

    def _do_stop(self, node: Node, key: str, comes_back: bool) -> None:
        kid = node.kids[key]
        kid.token += 1
        node.agenda.insert(0, ("stopped for", comes_back))
        ended, kid.ended = kid.ended, None
        if kid.is_alive:
            kid.is_expected, kid.comes_back = True, comes_back
            node.waiting = ("stop", key)
            self._stop(kid, "shutdown")
        else:
            self._after_stop(node, key, ended[0] if ended is not None else "")

    def _after_stop(self, node: Node, key: str, reason: str) -> None:
        _, comes_back = node.agenda.pop(0)
        kid = node.kids[key]
        kid.comes_back = False
        expected = rules.EXPECTED[kid.spec.restart, kid.spec.shutdown == 0]
        if reason and reason not in expected:
            self.write("shutdown_error", kid.path, f"{reason} 1")
        if not comes_back:
            self._close(kid)
        kid.state = "undefined"

    def _do_forget(self, node: Node, key: str) -> None:
        kid = node.kids[key]
        if not node.is_stopping or not kid.is_static:
            self._close(kid)
        kid.state, kid.ended = "undefined", None
        kid.token += 1
        if not rules.KEEPS_SPEC[kid.spec.restart, node.is_dynamic]:
            del node.kids[key]

    def _do_drop(self, node: Node, key: str) -> None:
        self._close(node.kids[key])
        del node.kids[key]

    def _do_nothing(self, node: Node) -> None:
        """A supervisor without children has nothing to start."""

    def _do_call_off(self, node: Node, _: str) -> None:
        """A restart is off, and with it that of those who were to start after it."""
        for each in node.kids.values():
            if each.state == "undefined":
                self._close(each)


def birth(node: Node) -> None:
    """Begin a life of a supervisor: its children are to be started."""
    node.times, node.odd, node.kids, node.may_return = [], {}, {}, None
    for spec in () if node.is_dynamic else node.spec.children:
        node.agenda += [("bring", spec.id), ("start", spec.id, "first")]
    if not node.agenda:
        node.agenda.append(("nothing",))


def new_state(spec: Spec, specs: dict[str, Spec]) -> State:
    """A tree whose supervisor is about to be started."""
    root = Node(spec)
    root.life, root.phase, root.is_open = 1, "starting", True
    birth(root)
    return State(root, specs)


class Unexplained(AssertionError):
    """Raised where no order of events leads to what was observed."""


def explore(
    states: list[State],
    diary: list[Entry],
    actions: list[Move],
    until: float,
    answers: dict[int, str],
    alive: dict[str, int],
) -> list[State]:
    """All states at time `until` that agree with what was observed since.

    Raises:
        Unexplained: there is none.
    """
    found: dict[Any, State] = {}
    failures: dict[str, None] = {}
    furthest = 0
    for first in states:
        first.seen = first.acted = 0
    stack = list(states)
    known: set[Any] = set()
    while stack:
        state = stack.pop()
        run = Run(state, diary, actions)
        moves = run.moves()
        if not moves:
            at = run.next_time()
            if at <= until and at < math.inf:
                state.now = at
                stack.append(state)
                continue
            state.now = until
            why = _difference(state, diary, answers, alive)
            if not why:
                found[state.key()] = state
            elif state.seen >= furthest:
                if state.seen > furthest:
                    failures.clear()
                furthest = state.seen
                failures[why] = None
            continue
        if len(moves) > 1:
            key = state.key()
            if key in known:
                continue
            known.add(key)
        for number, move in enumerate(moves):
            one = state if number == len(moves) - 1 else state.clone()
            try:
                Run(one, diary, actions).do(move)
            except Deviates as entry:
                if one.seen > furthest:
                    failures.clear()
                if one.seen >= furthest:
                    furthest = one.seen
                    failures[f"by the rules comes {entry.args[0]}"] = None
                continue
            stack.append(one)
    if not found:
        lines = [f"  {each}" for each in diary[:furthest]]
        saw = diary[furthest] if furthest < len(diary) else "nothing more"
        raise Unexplained("\n".join(["explained:", *lines, f"observed next: {saw}", *failures]))
    return list(found.values())


def _difference(
    state: State, diary: list[Entry], answers: dict[int, str], alive: dict[str, int]
) -> str:
    if state.seen < len(diary):
        return f"by the rules there is no {diary[state.seen]}"
    if state.answers != answers:
        wrong = {
            number: (state.answers.get(number), answers.get(number))
            for number in {*state.answers, *answers}
            if state.answers.get(number) != answers.get(number)
        }
        return f"answers by the rules, and given: {wrong}"
    if state.alive() != alive:
        return f"alive by the rules: {state.alive()}, and really: {alive}"
    return ""
