"""Python functions as tools: their schema, their arguments, their answers."""

from __future__ import annotations

import enum
import functools
import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional

import msgspec
import pytest
import trio
import trio.testing

from standby_actors.result import Attachment
from standby_actors.tools.tool import Tool, ToolContext, ToolOutput, tool
from tests.actors.tools.calling import answer, call, who


class Place(msgspec.Struct):
    lat: float
    lon: float = 0.0


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Node(msgspec.Struct):
    value: int
    children: list[Node] = []


async def weather(
    place: Place,
    days: Annotated[int, "how many days ahead"] = 1,
    unit: Literal["c", "f"] = "c",
    colours: list[Colour] = [],  # noqa: B006 - what a user may write
    note: Optional[str] = None,  # noqa: UP045 - what a user may write
) -> dict[str, Any]:
    """Forecast the weather.

    For a place, not a town.

    Args:
        place: where, in degrees;
            north and east are positive
        unit (str): Celsius or Fahrenheit

    Returns:
        what it will be
    """
    return {"lat": place.lat, "days": days, "unit": unit, "colours": colours, "note": note}


WEATHER = tool(weather)


def test_a_signature_becomes_a_schema() -> None:
    properties = WEATHER.parameters["properties"]
    assert WEATHER.name == "weather"
    assert WEATHER.description == "Forecast the weather.\n\nFor a place, not a town."
    assert properties["days"] == {
        "type": "integer",
        "description": "how many days ahead",
        "default": 1,
    }
    assert properties["unit"] == {
        "enum": ["c", "f"],
        "default": "c",
        "description": "Celsius or Fahrenheit",
    }
    assert properties["note"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    where = "where, in degrees; north and east are positive"
    assert properties["place"]["description"] == where
    assert WEATHER.parameters["required"] == ["place"]
    assert WEATHER.parameters["additionalProperties"] is False
    assert set(WEATHER.parameters["$defs"]) == {"Place", "Colour"}


async def test_arguments_arrive_as_the_types_of_the_function() -> None:
    answered = await answer(call("weather", place={"lat": 1}, colours=["red"]), WEATHER)
    assert answered.output.text == '{"lat":1.0,"days":1,"unit":"c","colours":["red"],"note":null}'
    assert answered.fate == "ran"


async def test_everything_wrong_with_arguments_is_said_at_once() -> None:
    wrong = call("weather", place={"lon": "east"}, days="two", unit="k", dyas=3, colours=["red", 5])
    answered = await answer(wrong, WEATHER)
    assert answered.output.is_error
    assert answered.fate == "malformed"
    first, *problems = answered.output.text.splitlines()
    assert first == "weather was not run, because of its arguments:"
    assert sorted(problems) == [
        "- `colours[1]` must be one of 'blue', 'red', and is 5",
        "- `days` must be an integer, and is 'two'",
        "- `dyas` is not a parameter; do you mean days?",
        "- `place.lat` is missing; it must be a number",
        "- `place.lon` must be a number, and is 'east'",
        "- `unit` must be one of 'c', 'f', and is 'k'",
    ]


async def test_what_only_msgspec_can_tell_is_told_too() -> None:
    async def book(when: Annotated[str, msgspec.Meta(pattern="^[0-9-]+$")]) -> str:
        return when

    with pytest.raises(TypeError, match="not known where the function is defined"):
        # The types of a function in a function are its own, with postponed annotations.
        tool(local_type())
    answered = await answer(call("book", when="soon"), tool(book))
    assert "Expected `str` matching regex" in answered.output.text


def local_type() -> Callable[..., Any]:
    class Hidden(msgspec.Struct):
        pass

    def use(hidden: Hidden) -> None:
        """Use it."""

    return use


def test_a_type_that_holds_itself_has_a_schema() -> None:
    def walk(node: Node) -> int:
        return node.value

    walker = tool(walk)
    assert "Node" in walker.parameters["$defs"]
    deep = {"value": 1, "children": [{"value": "x"}]}
    assert walker.problems({"node": deep}) == (
        "`node.children[0].value` must be an integer, and is 'x'",
    )


def takes_anything(*words: str) -> None: ...
def has_no_type(word) -> None: ...  # type: ignore[no-untyped-def] # it is what is tested
def has_a_strange_type(word: threading.Thread) -> None: ...


@pytest.mark.parametrize(
    ("function", "why"),
    [
        pytest.param(takes_anything, "a mind cannot be told what to put there", id="*args"),
        pytest.param(has_no_type, "has no type", id="no type"),
        pytest.param(has_a_strange_type, "have no JSON schema", id="a type that is no data"),
    ],
)
def test_a_function_that_has_no_schema_is_refused_with_a_reason(
    function: Callable[..., Any], why: str
) -> None:
    with pytest.raises(TypeError, match=why):
        tool(function)


def test_a_function_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no name"):
        tool(lambda: None)
    assert tool(lambda: None, name="nothing").name == "nothing"


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 65, "a.b"])
def test_a_name_that_providers_do_not_take_is_refused(name: str) -> None:
    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        return ""

    with pytest.raises(ValueError, match="1 to 64"):
        Tool(name, "", {"type": "object"}, run)


async def test_methods_partials_and_positional_only_parameters_work() -> None:
    class Store:
        def __init__(self) -> None:
            self.kept: list[str] = []

        def keep(self, what: str, /, times: int = 1) -> int:
            self.kept += [what] * times
            return len(self.kept)

    store = Store()
    answered = await answer(call("keep", what="x", times=2), tool(store.keep))
    assert (answered.output.text, store.kept) == ("2", ["x", "x"])

    async def add(a: int, b: int) -> int:
        return a + b

    plus = tool(functools.partial(add, b=40), name="plus")
    assert (await answer(call("plus", a=2), plus)).output.text == "42"


async def test_a_default_that_is_no_data_stays_the_functions_own() -> None:
    marker = object()

    async def probe(seen: Any = marker, rest: list[int] = [1]) -> str:  # noqa: B006 - as above
        return f"{seen is marker} {rest}"

    assert (await answer(call("probe"), tool(probe))).output.text == "True [1]"


async def test_the_context_is_given_and_not_shown() -> None:
    assert who.parameters["properties"] == {}
    answered = await answer(call("who"), who, subagent="scout#2")
    assert answered.output.text == "scout#2 by who"


async def test_progress_is_told() -> None:
    @tool
    def dig(context: ToolContext) -> str:
        trio.from_thread.run_sync(context.progress, "half way")
        return "dug"

    heard: list[str] = []
    await answer(call("dig"), dig, on_progress=lambda _, text: heard.append(text))
    assert heard == ["half way"]


async def test_a_plain_function_runs_in_a_thread() -> None:
    @tool
    def where() -> str:
        """Say in which thread."""
        return str(threading.current_thread() is threading.main_thread())

    assert (await answer(call("where"), where)).output.text == "False"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(None, "done; it returned nothing", id="None"),
        pytest.param(b"abc", "abc", id="bytes"),
        pytest.param(b"\xff\xfe", "2 bytes that are no text", id="binary"),
        pytest.param(Place(1.0), '{"lat":1.0,"lon":0.0}', id="struct"),
        pytest.param({1: {2}}, '{"1":[2]}', id="a set, keys that are numbers"),
        pytest.param({(1, 2): 3}, '{"(1, 2)":3}', id="keys that JSON has not"),
        pytest.param(ToolOutput("so", is_error=True), "so", id="an output"),
        pytest.param("", "", id="empty text"),
        pytest.param(float("nan"), "null", id="not a number"),
    ],
)
async def test_any_result_becomes_text(value: Any, text: str) -> None:
    async def give() -> Any:
        return value

    assert (await answer(call("give"), tool(give))).output.text == text


async def test_a_value_inside_itself_is_still_text() -> None:
    loop: list[Any] = []
    loop.append(loop)

    async def give() -> Any:
        return loop

    assert (await answer(call("give"), tool(give))).output.text == "[[...]]"


async def test_a_picture_is_attached() -> None:
    picture = Attachment("image/png", b"...", "plot.png")

    async def plot() -> Attachment:
        return picture

    output = (await answer(call("plot"), tool(plot))).output
    assert (output.text, output.attachments) == ("plot.png (image/png)", (picture,))


async def test_what_a_function_raises_is_told_without_traceback_and_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-canary-0123456789")

    async def buy() -> None:
        raise ConnectionError("GET https://shop/?key=sk-canary-0123456789 refused")

    output = (await answer(call("buy"), tool(buy))).output
    assert output.is_error
    assert output.text == "buy failed: ConnectionError: GET https://shop/?key=[secret] refused"


async def test_a_group_of_exceptions_is_told_by_its_parts() -> None:
    async def both() -> None:
        async with trio.open_nursery():
            raise KeyError("x")

    output = (await answer(call("both"), tool(both))).output
    assert output.text == "both failed: ExceptionGroup: KeyError: 'x'"


async def test_a_cut_thread_is_left_behind_and_the_model_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    release = threading.Event()

    @tool(timeout=5)
    def wait() -> None:
        release.wait()

    # Threads are not part of the virtual time: without one that waits for nothing
    # but the clock, the clock would not jump.
    autojump_clock.autojump_threshold = 0.01
    output = (await answer(call("wait"), wait)).output
    release.set()
    assert output.is_error
    assert "longer than its 5 s.  Its thread works on" in output.text
