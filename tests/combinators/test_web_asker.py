"""A person is asked on a page, which only they can reach and which ends with its block."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import trio

from standby_combinators import interview
from standby_combinators.asker import Answer, Option, Question
from standby_combinators.web_asker import WebAsker, open_web_asker
from tests.support.chromium import chromium_path, open_page

pytestmark = pytest.mark.real

SHAPE = Question("Which shape?", (Option("round", "rolls well"), Option("2")), "Shape")
COLOUR = Question("Which colour?")


class Got:
    """What a page was answered."""

    def __init__(self, code: int, text: str, headers: Any) -> None:
        self.code, self.text, self.headers = code, text, headers


async def get(url: str, **headers: str) -> Got:
    async with httpx2.AsyncClient(timeout=30) as client:
        answer = await client.get(url, headers=headers)
        return Got(answer.status_code, answer.text, answer.headers)


async def send(asker: WebAsker, data: Any, **headers: str) -> Got:
    body = data if isinstance(data, bytes) else msgspec.json.encode(data)
    async with httpx2.AsyncClient(timeout=30) as client:
        answer = await client.post(f"{asker.url}answer", content=body, headers=headers)
        return Got(answer.status_code, answer.text, answer.headers)


class Watching:
    """What one page is told, event by event."""

    def __init__(self) -> None:
        self.states: list[Any] = []
        self._news = trio.Event()

    async def watch(self, asker: WebAsker) -> None:
        async with (
            httpx2.AsyncClient(timeout=30) as client,
            client.stream("GET", f"{asker.url}events") as answer,
        ):
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    self.states.append(msgspec.json.decode(line[6:]))
                    self._news.set()
                    self._news = trio.Event()

    async def until(self, how: Any) -> Any:
        with trio.fail_after(30):
            while not (self.states and how(self.states[-1])):
                await self._news.wait()
        return self.states[-1]


async def ask_into(asker: WebAsker, question: Question, answers: list[Answer | None]) -> None:
    answers.append(await asker.ask(question))


def port_of(asker: WebAsker) -> int:
    return int(asker.url.split(":")[2].partition("/")[0])


def nobody_listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_question_is_shown_answered_and_never_asked_again() -> None:
    answers: list[Answer | None] = []
    watching = Watching()
    async with trio.open_nursery() as nursery, open_web_asker("A logo") as asker:
        nursery.start_soon(watching.watch, asker)
        nursery.start_soon(ask_into, asker, SHAPE, answers)
        state = await watching.until(lambda it: it["open"])
        assert state["topic"] == "A logo"
        [shown] = state["open"]
        assert (shown["text"], shown["header"]) == ("Which shape?", "Shape")
        assert shown["options"] == [{"label": "round", "description": "rolls well"}, {"label": "2"}]
        # The second option, whose label looks like the number of another.
        assert (await send(asker, {"id": shown["id"], "option": 1})).code == 204
        state = await watching.until(lambda it: not it["open"])
        assert state["answered"] == [{"question": "Which shape?", "text": "2"}]
        assert answers == [Answer("Which shape?", "2")]
        # Spelt another way it is the same question.
        assert await asker.ask(Question("which  shape")) == Answer("Which shape?", "2")
        late = await send(asker, {"id": shown["id"], "option": 0})
        assert (late.code, late.text) == (409, "that question is not open any more")
        assert asker.answers == (Answer("Which shape?", "2"),)
    assert (await watching.until(lambda it: it["is_over"]))["open"] == []


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ({"text": " ROUND "}, Answer("Which shape?", "round")),
        ({"text": "1"}, Answer("Which shape?", "1", custom=True)),
        ({"text": "like an egg"}, Answer("Which shape?", "like an egg", custom=True)),
        ({"option": 0}, Answer("Which shape?", "round")),
        ({}, None),
    ],
    ids=["a label", "a number is a number", "words of one's own", "an option", "no more"],
)
async def test_an_answer_is_an_option_or_ones_own(data: Any, answer: Answer | None) -> None:
    answers: list[Answer | None] = []
    async with trio.open_nursery() as nursery, open_web_asker() as asker:
        nursery.start_soon(ask_into, asker, SHAPE, answers)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert (await send(asker, {"id": 1, **data})).code == 204
    assert answers == [answer]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"id": 7, "text": "x"}, 409),
        ({"id": 1, "text": "  "}, 409),
        ({"id": 1, "option": 2}, 409),
        ({"id": 1, "option": -1}, 409),
        ({"text": "x"}, 400),
        (b"\xff\xfe", 400),
        (b"[]", 400),
        (b"{" + b" " * 200_000, 413),
    ],
    ids=[
        "no such question",
        "blank",
        "no such option",
        "less than none",
        "no id",
        "no text",
        "a list",
        "too long",
    ],
)
async def test_what_is_no_answer_is_refused_and_the_question_stays_open(
    data: Any, code: int
) -> None:
    answers: list[Answer | None] = []
    async with trio.open_nursery() as nursery, open_web_asker() as asker:
        nursery.start_soon(ask_into, asker, SHAPE, answers)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert (await send(asker, data)).code == code
        assert answers == []
        assert (await send(asker, {"id": 1, "option": 0})).code == 204
    assert answers == [Answer("Which shape?", "round")]


async def test_nobody_without_the_address_gets_in() -> None:
    async with open_web_asker("secret") as asker:
        root = asker.url.rsplit("/", 2)[0]
        token = asker.url.rsplit("/", 2)[1]
        assert len(token) >= 43
        for path in (
            "/",
            f"/{token[:-1]}/",
            f"/{token}x/",
            "/events",
            f"/{token}/other",
            "/x/events",
        ):
            assert (await get(root + path)).code == 404, path
        # A name that points here, as an attacker's may.
        assert (await get(asker.url, Host="evil.example:80")).code == 403
        assert (await get(f"{asker.url}events", Host="evil.example")).code == 403
        for origin in ("http://evil.example", "null"):
            assert (await send(asker, {"id": 1}, Origin=origin)).code == 403
        page = await get(asker.url)
        assert page.code == 200
        assert "'unsafe" not in page.headers["content-security-policy"]
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert page.headers["referrer-policy"] == "no-referrer"
        assert "secret" not in page.text  # it comes by the stream, as text
    async with open_web_asker() as another:
        assert another.url.rsplit("/", 2)[1] != token


async def test_a_question_that_is_cancelled_is_shown_no_more() -> None:
    watching = Watching()
    async with trio.open_nursery() as nursery, open_web_asker() as asker:
        nursery.start_soon(watching.watch, asker)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as asking:
                asking.start_soon(asker.ask, SHAPE)
                await watching.until(lambda it: it["open"])
                scope.cancel()
        await watching.until(lambda it: not it["open"] and not it["answered"])


async def test_two_who_ask_the_same_wait_for_one_answer() -> None:
    answers: list[Answer | None] = []
    async with trio.open_nursery() as nursery, open_web_asker() as asker:
        nursery.start_soon(ask_into, asker, COLOUR, answers)
        nursery.start_soon(ask_into, asker, COLOUR, answers)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert (await send(asker, {"id": 1, "text": "red"})).code == 204
        assert (await send(asker, {"id": 2, "text": "blue"})).code == 409
    assert answers == [Answer("Which colour?", "red", custom=True)] * 2


async def test_left_however_it_answers_nobody_and_no_port_is_open() -> None:
    answers: list[Answer | None] = []
    ports: list[int] = []
    async with trio.open_nursery() as nursery, open_web_asker() as asker:
        ports.append(port_of(asker))
        nursery.start_soon(ask_into, asker, COLOUR, answers)
        await trio.testing.wait_all_tasks_blocked(0.05)
    assert answers == [None]
    assert await asker.ask(COLOUR) is None
    with trio.CancelScope() as scope:
        async with open_web_asker() as asker:
            ports.append(port_of(asker))
            scope.cancel()
            await trio.sleep_forever()
    with pytest.RaisesGroup(pytest.RaisesExc(KeyError)):
        async with open_web_asker() as asker:
            ports.append(port_of(asker))
            raise KeyError
    assert all(nobody_listens(port) for port in ports)


async def test_a_port_that_is_taken_is_an_error_that_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            async with open_web_asker(port=taken.getsockname()[1]):
                pass


@pytest.mark.skipif(chromium_path() is None, reason="no Chromium: apt-get install chromium")
async def test_a_person_is_interviewed_in_a_browser(tmp_path: Path) -> None:
    said = iter(
        [
            '{"header": "Shape", "question": "Which <b>shape</b>?", "options":'
            ' [{"label": "round", "description": "rolls well"}, "square"]}',
            '{"question": "Which colour?"}',
            '{"question": "Which <b>shape</b>?"}',
            "READY",
            "A round, red thing.",
        ]
    )
    heard: list[str] = []

    async def interviewer(task: str) -> str:
        heard.append(task)
        return next(said)

    reports: list[Any] = []
    reported = trio.Event()
    async with open_page() as page, trio.open_nursery() as nursery:
        async with open_web_asker("A thing", known=[Answer("For whom?", "me")]) as asker:

            async def play() -> None:
                reports.append(await interview(interviewer, "A thing", asker))
                reported.set()

            nursery.start_soon(play)
            await page.go(asker.url)
            await page.until("document.querySelectorAll('.option').length === 2")
            assert await page.run("document.title") == "(1) Which <b>shape</b>?"
            text = await page.text()
            for words in ("A thing", "Shape", "Which <b>shape</b>?", "rolls well", "For whom?"):
                assert words in text
            # What a model asks is text, and no markup.
            assert await page.run("document.querySelector('#question b')") is None
            await page.photograph(tmp_path / "question.png")
            await page.press("1")
            await page.until("document.querySelector('#question').textContent === 'Which colour?'")
            assert await page.run("document.activeElement.id") == "own"
            await page.type("red, but not too red")
            await page.press("Enter")
            await page.until("document.querySelectorAll('#answers li').length === 3")
            await page.photograph(tmp_path / "answered.png", dark=True)
            with trio.fail_after(30):
                await reported.wait()
        await page.until("document.body.innerText.includes('no more questions')")
    [report] = reports
    assert report.output == "A round, red thing."
    assert [answer.text for answer in report.answers] == ["round", "red, but not too red"]
    assert "That was answered before: round" in heard[3]
    assert (tmp_path / "question.png").stat().st_size > 5_000
