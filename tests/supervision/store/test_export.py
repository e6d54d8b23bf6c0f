"""Events as lines of JSON: all of them once, whatever cut the export before."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import trio

from standby_supervision.store import Append, Create, NewEvent, Store, StoreUrl
from standby_supervision.store.export import TornExport, export
from tests.supervision.store.test_store import HERE, create, given, opened

pytestmark = pytest.mark.real


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().decode().split("\n")[:-1]]


async def filled(store: Store) -> None:
    """Two workspaces, three runs, and data with ends of lines in it."""
    await create(store, "s")
    opening = (NewEvent("run.opened", b'{\n  "of": "another"\n}'),)
    await store.submit(Create("t", "/other", "nightly", HERE, 1.0, opening, "running")).wait()
    for number in range(600):
        run = "rst"[number % 3]
        event = NewEvent("step.ended", json.dumps({"ä😀": number}).encode())
        receipt = store.submit(Append(run, 1, 1.0, (event,)))
    await receipt.wait()


async def test_an_export_has_each_event_once_and_goes_on(place: StoreUrl, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    async with opened(place) as store:
        await filled(store)
        assert await export(store, path) == 603
        assert await export(store, path) == 603
        assert [line["position"] for line in lines(path)] == list(range(1, 604))
        assert lines(path)[2]["data"] == {"of": "another"}
        await store.append("r", 1, [given(1)])
        assert await export(store, path) == 604
        assert lines(path)[-1] == {**lines(path)[-1], "run": "r", "data": {"number": 1}}
        assert await export(store, tmp_path / "later", after=600) == 604
        assert [line["position"] for line in lines(tmp_path / "later")] == [601, 602, 603, 604]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_run_or_a_workspace_alone(place: StoreUrl, tmp_path: Path) -> None:
    async with opened(place) as store:
        await filled(store)
        await export(store, tmp_path / "run", run="s")
        assert [line["seq"] for line in lines(tmp_path / "run")] == list(range(1, 202))
        await export(store, tmp_path / "work", workspace="/srv")
        assert {line["run"] for line in lines(tmp_path / "work")} == {"r", "s"}
        assert len(lines(tmp_path / "work")) == 402
        await export(store, tmp_path / "nobody's", workspace="/nowhere")
        assert lines(tmp_path / "nobody's") == []


async def test_an_export_cut_anywhere_is_gone_on_with(tmp_path: Path) -> None:
    path, whole = tmp_path / "events.jsonl", tmp_path / "whole.jsonl"
    async with opened(tmp_path / "store.db") as store:
        for number in range(20):
            await store.append("r", 1, [NewEvent("said", json.dumps({"ä": number}).encode())])
        text = NewEvent("said", json.dumps({"text": "ä😀" * 50_000}, ensure_ascii=False).encode())
        await store.append("r", 1, [text])
        await export(store, whole)
        complete = whole.read_bytes()
        drawn = random.Random(7)
        last = complete.rindex(b"\n", 0, -1)
        inside = complete.index("😀".encode()) + 2
        for cut in [0, 1, inside, last, last + 1, len(complete) - 1, *range(300, 420)] + [
            drawn.randrange(len(complete)) for _ in range(30)
        ]:
            path.write_bytes(complete[:cut])
            torn = path.with_name("events.jsonl.torn")
            torn.unlink(missing_ok=True)
            is_torn = cut > 0 and not complete[:cut].endswith(b"\n")
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                await export(store, path)
            assert [w.category for w in said] == [TornExport] * is_torn, cut
            assert path.read_bytes() == complete, cut
            assert torn.exists() == is_torn
            if is_torn:
                start = complete.rfind(b"\n", 0, cut) + 1
                assert torn.read_bytes() == complete[start:cut] + b"\n"


async def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("dear diary\n")
    async with opened(tmp_path / "store.db") as store:
        with pytest.raises(ValueError, match="its last line is no event of a store"):
            await export(store, path)
    assert path.read_text() == "dear diary\n"


async def test_an_export_that_is_cancelled_has_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    async with opened(tmp_path / "store.db") as store:
        for _ in range(4):
            await store.append("r", 1, [given(n) for n in range(500)])
        for steps in range(12):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(export, store, path)
                    for _ in range(steps):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            if path.exists():
                numbers = [line["position"] for line in lines(path)]
                assert numbers == list(range(1, len(numbers) + 1))
        await export(store, path)
        assert len(lines(path)) == 2_001
