"""pykka: an actor is a thread."""

from __future__ import annotations

import sys
import threading

import pykka

from ..watch import Watch, resident
from .answer import answer, answer_bytes, check


class Adder(pykka.ThreadingActor):
    """Adds up numbers; sets its event when it has had so many."""

    def __init__(self, messages: int, done: threading.Event) -> None:
        super().__init__()
        self.left = messages
        self.total = 0
        self.done = done

    def on_receive(self, message: int) -> int:
        if message < 0:
            return self.total
        self.total += message
        self.left -= 1
        if not self.left:
            self.done.set()
        return 0


class Echo(pykka.ThreadingActor):
    """Answers with what it is asked."""

    def on_receive(self, message: int) -> int:
        return message


class Turn(pykka.ThreadingActor):
    """Takes one turn: gives its parent a result, and stops."""

    def __init__(self, parent: pykka.ActorRef[Adder]) -> None:
        super().__init__()
        self.parent = parent

    def on_receive(self, message: int) -> None:
        self.parent.tell(message + 1)
        self.stop()


def tell(messages: int) -> None:
    done = threading.Event()
    ref = Adder.start(messages, done)
    watch = Watch()
    with watch:
        for number in range(messages):
            ref.tell(number)
        done.wait()
    check(ref.ask(-1), messages * (messages - 1) // 2)
    answer(messages, watch)


def ask(questions: int) -> None:
    ref = Echo.start()
    ref.ask(0)
    watch = Watch()
    total = 0
    with watch:
        for number in range(questions):
            total += ref.ask(number)
    check(total, questions * (questions - 1) // 2)
    answer(questions, watch)


def fan_out(children: int) -> None:
    done = threading.Event()
    parent = Adder.start(children, done)
    watch = Watch()
    with watch:
        for number in range(children):
            Turn.start(parent).tell(number)
        done.wait()
    check(parent.ask(-1), children * (children + 1) // 2)
    answer(children, watch)


def memory(actors: int) -> None:
    before = resident()
    refs = [Echo.start() for _ in range(actors)]
    check([ref.ask(1) for ref in refs], [1] * actors)
    answer_bytes(actors, before)


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))
