"""A browser without a window, spoken to over a pair of pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0
"""Seconds that the browser has for one thing, also on a busy machine."""


def chromium_path() -> str | None:
    """The browser, if there is one."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Page:
    """One page; make it with :func:`open_page`."""

    def __init__(self, reading: trio.lowlevel.FdStream, writing: trio.lowlevel.FdStream) -> None:
        self._reading = reading
        self._writing = writing
        self._left = b""
        self._count = 0
        self._session: str | None = None

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method of the DevTools protocol, and return what it returns."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        await self._writing.send_all(json.dumps(message).encode() + b"\0")
        with trio.fail_after(PATIENCE):
            while True:
                while b"\0" not in self._left:
                    more = await self._reading.receive_some()
                    assert more, "the browser has ended"
                    self._left += more
                line, _, self._left = self._left.partition(b"\0")
                answer = json.loads(line)
                if answer.get("id") == self._count:
                    assert "error" not in answer, answer
                    return answer["result"]

    async def open(self, width: int, height: int) -> None:
        """Open an empty page of that size."""
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        await self.call("Page.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def go(self, url: str) -> None:
        """Show `url`."""
        await self.call("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """What a JavaScript expression comes to."""
        done = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until a JavaScript expression is true, and return what it comes to."""
        value: Any = None
        with trio.move_on_after(PATIENCE):
            # The page is looked at: it is another program, and tells nobody of itself.
            while not (value := await self.run(script)):  # noqa: ASYNC110 - as said
                await trio.sleep(0.05)
            return value
        raise AssertionError(f"{script} is {value!r}; the page: {await self.text()}")

    async def end(self) -> None:
        """End the browser, with all that it has started."""
        self._session = None
        try:
            await self.call("Browser.close")
        except (AssertionError, trio.BrokenResourceError, trio.TooSlowError):
            return

    async def text(self) -> str:
        """What can be read on the page."""
        text: str = await self.run("document.body.innerText")
        return text

    async def type(self, text: str) -> None:
        """Type `text` where the page takes it."""
        await self.call("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        """Press a key, as in "Enter" or "1"."""
        more: dict[str, Any] = {"text": "\r"} if key == "Enter" else {"text": key}
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def photograph(self, path: Path, *, dark: bool = False) -> None:
        """Write a picture of the page."""
        scheme = "dark" if dark else "light"
        await self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        shot = await self.call("Page.captureScreenshot", format="png")
        await trio.Path(path).write_bytes(base64.b64decode(shot["data"]))


@asynccontextmanager
async def open_page(width: int = 900, height: int = 800) -> AsyncGenerator[Page]:
    """A browser with one page, which ends with the block."""
    program = chromium_path()
    assert program is not None, "there is no Chromium: apt-get install chromium"
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
        ]
        # The browser reads its descriptor 3 and writes to its descriptor 4.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        process = await trio.lowlevel.open_process(
            ["bash", "-c", script, "bash", program, *options],
            pass_fds=(to_browser, from_browser),
            stdin=None,
            stdout=-3,
            stderr=-3,
            env={**os.environ, "HOME": profile},
        )
        os.close(to_browser)
        os.close(from_browser)
        async with trio.lowlevel.FdStream(to_us) as reading, trio.lowlevel.FdStream(from_us) as out:
            page = Page(reading, out)
            try:
                await page.open(width, height)
                yield page
            finally:
                with trio.CancelScope(deadline=trio.current_time() + 5, shield=True):
                    await page.end()
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
