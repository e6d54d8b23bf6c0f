"""Where a person sits while a team works: sees it, types orders, presses keys, is asked.

It reads the stream of events and uses the switch; without it, everything ends the same.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import trio
from attrs import define, field
from rich.console import Console
from rich.live import Live
from rich.text import Text

from standby_actors.events import Listener, open_events
from standby_combinators.asker import Answer, Question, answered, render_question
from standby_combinators.stop import StopSwitch

from .crew import told
from .display import FRAME, is_live
from .keys import Key, keys_of
from .line import History, Line
from .orders import COMMANDS, Cut, Help, NotUnderstood, Steer, Stop, StopAll, order_of
from .scene import PROMPT, Scene, drawn, summary
from .terminal import Terminal, open_terminal
from .text import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

ESCAPE_SECONDS = 0.05
"""How long an escape may be followed by the rest of a sequence before it is a key."""
NOTICE_SECONDS = 15.0
"""How long an answer to an order stays in sight."""
BY_HAND = "stopped by hand"


@define(eq=False)
class _Asked:
    """The question that is open."""

    question: Question
    over: trio.Event = field(factory=trio.Event)
    answer: Answer | None = None


class Desk:
    """One person, in front of one team; make it with :func:`open_desk`."""

    def __init__(
        self,
        scene: Scene,
        switch: StopSwitch,
        console: Console,
        terminal: Terminal | None,
        nursery: trio.Nursery,
        *,
        live: bool,
    ) -> None:
        self.scene = scene
        self.terminal = terminal
        self._switch = switch
        self._console = console
        self._nursery = nursery
        self._is_live = live
        self._history = History()
        self._asked: _Asked | None = None
        self._asking = trio.Lock()
        self._noticed = 0.0
        self._above: list[RenderableType] = []
        """What is to be printed above the picture, for good."""
        self._changed = trio.Event()
        self._drawing = trio.Lock()
        self._live: Live | None = None
        self.over = trio.Event()
        self.is_deaf = False
        """Nobody types any more: the terminal is gone, or its input has ended."""

    # ---- what is said to the person

    def notice(self, text: str) -> None:
        """Say something that need not be kept."""
        if self._is_live:
            self.scene.notices.append(text)
            self._noticed = trio.current_time()
            self.changed()
        else:
            self.say(Text(f"standby: {plain(text)}"))

    def say(self, what: RenderableType) -> None:
        """Say something that stays where it was printed."""
        self._above.append(what)
        self.changed()

    def changed(self) -> None:
        """Have the picture drawn again soon."""
        self._changed.set()
        self._changed = trio.Event()

    # ---- what the person does

    def press(self, key: Key) -> None:
        """Do what `key` is for."""
        scene = self.scene
        line = scene.line or Line()
        match key.name:
            case "esc":
                self._escape(line)
            case "ctrl+del" | "ctrl+x":
                self._order("/stop")
            case "enter":
                scene.line = Line()
                self.enter(line.text)
            case "tab":
                ids = self._switch.ids
                scene.line = line.completed([*COMMANDS, *ids])
            case "up" | "down":
                self._move(line, key.name == "up")
            case "ctrl+d":
                if not line.text and self._asked is not None:
                    self._answer(None)
            case "ctrl+l":
                pass
            case _:
                scene.line = line.pressed(key)
        self.changed()

    def enter(self, text: str) -> None:
        """Take one line that was typed: an answer if a question is open, else an order."""
        text = text.strip()
        self._history.entered(text)
        self.scene.notices.clear()
        if self._asked is not None and not text.startswith("/"):
            if text:
                self._answer(text)
            elif self._is_live:
                self.notice("type an answer, or press esc to answer no more")
            else:
                self._answer(None)
        elif text:
            self._order(text)

    def _escape(self, line: Line) -> None:
        if line.text:
            self.scene.line = Line()
            return
        if self._asked is not None:
            self._answer(None)
            return
        working = [hand.id for hand in self.scene.crew.working if hand.id in self._switch.ids]
        chosen = self.scene.chosen
        if chosen not in working and len(working) > 1:
            self.scene.chosen = None
            self.notice(
                f"{len(working)} turns are in progress: choose one with the arrow keys, then esc"
                " (ctrl+del or ctrl+x stops all)"
            )
        elif working:
            self._cut(chosen if chosen in working else working[0])
        else:
            self.notice("no turn is in progress")

    def _move(self, line: Line, up: bool) -> None:
        working = [hand.id for hand in self.scene.crew.hands.values() if hand.state == "working"]
        if line.text or self._asked is not None or len(working) < 2:
            self.scene.line = self._history.step(line, up)
            return
        at = working.index(self.scene.chosen) if self.scene.chosen in working else None
        if at is None:
            at = 0 if up else -1
        self.scene.chosen = working[(at + (-1 if up else 1)) % len(working)]

    def _order(self, text: str) -> None:
        match order_of(text, self._switch.ids):
            case StopAll():
                self.notice("stopping all")
                self._switch.signal.set(BY_HAND, kind="stopped")
            case Stop(who):
                self.notice(f"stopping {who}")
                self._nursery.start_soon(self._stop, who)
            case Cut(who):
                self._cut(who)
            case Steer(who, words):
                became = self._switch.steer(who, words)
                self.notice(
                    {
                        "queued": f"{who} reads it before it goes on",
                        "idle": f"{who} has no turn in progress",
                        "unsupported": f"{who} takes no word in the middle of a turn",
                        None: f"{who} is not there any more",
                    }[became]
                )
            case Help():
                for each in (*COMMANDS.values(), *(KEYS_HELP if self._is_live else ())):
                    self.notice(each)
            case NotUnderstood(why):
                self.notice(self._better(text, why))

    def _better(self, text: str, why: str) -> str:
        """`why`, or that whoever is meant works for somebody who can be stopped."""
        for word in text.split():
            hand = self.scene.crew.hands.get(word)
            if hand is not None and hand.parent in self._switch.ids:
                return f"{word} works for {hand.parent}: say that name to end both"
            if hand is not None and word not in self._switch.ids:
                return f"{word} has ended already"
        return why

    def _cut(self, who: str) -> None:
        if self._switch.interrupt(who):
            self.notice(f"cut the turn of {who}")
        else:
            self.notice(f"{who} has no turn in progress")

    async def _stop(self, who: str) -> None:
        is_down = await self._switch.one(who)
        self.notice(f"{who} is down" if is_down else f"{who} was gone already")

    # ---- what the person is asked

    async def ask(self, question: Question, /) -> Answer | None:
        """Show the question, and wait for a line; one at a time, whoever asks."""
        async with self._asking:
            if self.is_deaf:
                return None
            self._asked = asked = _Asked(question)
            self.say(Text(plain(render_question(question)), style="bold" if self._is_live else ""))
            if not self._is_live:
                self.say(Text("(a number or your own words; an empty line: no more questions)"))
            self.scene.prompt = "answer >"
            if self._is_live:
                self.notice("enter answers · esc: no more questions")
            self.changed()
            try:
                await asked.over.wait()
                return asked.answer
            finally:
                self._asked = None
                self.scene.prompt = PROMPT
                self.scene.notices.clear()
                self.changed()

    def _answer(self, text: str | None) -> None:
        asked = self._asked
        if asked is None or asked.over.is_set():
            return
        if text is not None:
            asked.answer = answered(asked.question, text)
        if self._is_live:
            said = "(no more questions)" if asked.answer is None else asked.answer.text
            self.say(Text(f"> {plain(said)}", style="cyan"))
        asked.over.set()

    def deafen(self) -> None:
        """Note that nobody types any more; whoever asks is told so."""
        self.is_deaf = True
        self.scene.line = None
        self._answer(None)
        self.changed()

    # ---- the terminal

    async def read_keys(self) -> None:
        """Take each key as it is pressed."""
        assert self.terminal is not None
        left = b""
        while True:
            data = b""
            if left:
                # An escape alone is a key, unless the rest of a sequence follows at once.
                with trio.move_on_after(ESCAPE_SECONDS):
                    data = await self.terminal.read()
            if not data:
                keys, left = keys_of(left, is_last=True)
                if not left:
                    self._press_all(keys)
                    data = await self.terminal.read()
                    if not data:
                        break
            keys, left = keys_of(left + data)
            self._press_all(keys)
        self.deafen()

    def _press_all(self, keys: list[Key]) -> None:
        for key in keys:
            self.press(key)

    async def read_lines(self) -> None:
        """Take each line as it is entered, on a terminal that shows it itself."""
        assert self.terminal is not None
        left = b""
        while data := await self.terminal.read():
            *lines, left = (left + data).split(b"\n")
            for line in lines:
                self.enter(line.decode("utf-8", "replace"))
        self.deafen()

    async def watch_jobs(self) -> None:
        """Give the terminal back while we are stopped (Ctrl-Z), and take it again after."""
        with trio.open_signal_receiver(signal.SIGTSTP, signal.SIGCONT) as signals:
            async for each in signals:
                async with self._drawing:
                    if each == signal.SIGTSTP:
                        self._hide()
                        # The one that cannot be handled: so the default is not to be put back.
                        os.kill(os.getpid(), signal.SIGSTOP)
                    self._appear()

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self.terminal is not None:
            self.terminal.leave()

    def _appear(self) -> None:
        """Draw, and read keys, if the terminal is ours."""
        if self.terminal is not None and not self.terminal.is_ours:
            return
        if self.terminal is not None:
            # The shell has set it anew while we were away.
            self.terminal.leave()
            self.terminal.enter()
        if self._live is None:
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=False
            )
            self._live.start()

    @contextmanager
    def _shown(self) -> Generator[None]:
        try:
            self._appear()
            yield
        finally:
            self._hide()

    async def draw(self) -> None:
        """Draw the picture again and again, until it is over; then it is gone."""
        console = self._console
        with self._shown():
            while not self.over.is_set():
                changed = self._changed
                async with self._drawing:
                    self._tidy()
                    if self._live is not None:
                        width = console.width
                        self._live.update(drawn(self.scene, console.height, width))
                        await trio.to_thread.run_sync(
                            self._frame, self._live, abandon_on_cancel=True
                        )
                with trio.move_on_after(FRAME):
                    await changed.wait()

    def _tidy(self) -> None:
        scene = self.scene
        scene.crew.now = now = trio.current_time()
        error = self._switch.signal.error
        scene.ending = "" if error is None else error.message
        if scene.notices and self._asked is None and now > self._noticed + NOTICE_SECONDS:
            scene.notices.clear()
        chosen = scene.crew.hands.get(scene.chosen or "")
        if chosen is not None and chosen.state != "working":
            scene.chosen = None

    def _frame(self, live: Live) -> None:
        above, self._above = self._above, []
        for each in above:
            # Not folded: an address is to be copied whole.
            live.console.print(each, soft_wrap=True)
        live.refresh()

    async def print_said(self) -> None:
        """Print what is said, where no picture is drawn."""
        while not self.over.is_set() or self._above:
            changed = self._changed
            above, self._above = self._above, []
            for each in above:
                line = each.plain if isinstance(each, Text) else str(each)
                await trio.to_thread.run_sync(self._print_line, line, abandon_on_cancel=True)
            if not self._above and not self.over.is_set():
                await changed.wait()

    def _print_line(self, line: str) -> None:
        # Not rich's print: a line is a line, however wide the terminal is not.
        self._console.file.write(line + "\n")
        self._console.file.flush()

    async def follow(self, events: Listener) -> None:
        """Fold the stream of events into the scene, and tell it where nothing is drawn."""
        async for event in events:
            self.scene.crew.take(event)
            if not self._is_live:
                line = told(self.scene.crew, event)
                if line is not None:
                    self.say(Text(plain(line)))

    def finish(self) -> None:
        """Print what is left to be said, and what remains of the picture."""
        above, self._above = self._above, []
        for each in above:
            if self._is_live:
                self._console.print(each, soft_wrap=True)
            else:
                self._print_line(each.plain if isinstance(each, Text) else str(each))
        if self._is_live and self.scene.crew.hands:
            self._console.print(summary(self.scene))


KEYS_HELP = (
    "esc               cut the turn in progress; of several, the one chosen with ↑ and ↓",
    "ctrl+del, ctrl+x  stop all",
    "ctrl+c            stop all; twice: at once",
)


@asynccontextmanager
async def open_desk(
    scene: Scene, switch: StopSwitch, console: Console, *, is_plain: bool = False
) -> AsyncGenerator[Desk]:
    """Show what is going on, and take orders, while the block is open.

    Left, however that is, the terminal is set as it was and the picture is gone.

    Args:
        scene: what there is to show at first.
        switch: what orders are given to.
        console: where it is shown; a live picture only on a terminal.
        is_plain: show lines on a terminal too.
    """
    live = is_live(console) and not is_plain
    with ExitStack() as stack:
        # Lines are read from whoever is at the standard input, and from nobody else.
        wanted = live or (sys.stdin is not None and sys.stdin.isatty())  # pyright: ignore[reportUnnecessaryComparison]  # None without a console
        terminal = stack.enter_context(open_terminal()) if wanted else None
        if live and terminal is not None:
            scene.line = Line()
        async with (
            open_events() as events,
            trio.open_nursery() as nursery,
            trio.open_nursery() as typing,
        ):
            desk = Desk(scene, switch, console, terminal, nursery, live=live)
            desk.is_deaf = terminal is None
            nursery.start_soon(desk.follow, events)
            nursery.start_soon(desk.draw if live else desk.print_said)
            if terminal is not None:
                typing.start_soon(desk.read_keys if live else desk.read_lines)
                if live:
                    typing.start_soon(desk.watch_jobs)
            try:
                with switch.signal.calling(desk.changed):
                    yield desk
            finally:
                events.close()
                typing.cancel_scope.cancel()
                desk.over.set()
                desk.changed()
        desk.finish()
