"""A record as a page for people: one file, nothing loaded from anywhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from html import escape

from .record import Ended, Finished, Line, Noted, Opened, Said, Used
from .usage import NOTHING, Usage

_SHORT = 120
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --bad: #c0392b; --good: #2e8b57; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.facts { color: #777; margin: .2rem 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; }
.bar { position: relative; height: 1.1rem; background: var(--soft); border-radius: 3px; }
.bar i { position: absolute; top: 0; bottom: 0; border-radius: 3px; min-width: 2px; }
.turn { background: #4a7dbf; } .failed { background: var(--bad); } .tool { background: #d9a441; }
.message { border-left: 3px solid var(--line); padding: .2rem .8rem; margin: .7rem 0; }
.user { border-color: #4a7dbf; } .assistant { border-color: var(--good); }
.tool-answer { border-color: #d9a441; }
.role { color: #777; font-size: .85rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; font: inherit; }
code, .code { font-family: ui-monospace, monospace; font-size: .9em; }
.error { color: var(--bad); }
.note { color: #777; font-style: italic; }
"""


def page(lines: tuple[Line, ...], *, torn: bool = False) -> str:
    """The record as HTML: facts, usage turn by turn, a timeline, and what was said.

    Args:
        lines: of one record, in order.
        torn: whether its last line was lost; the page says so.
    """
    opened = next((line for line in lines if isinstance(line, Opened)), None)
    name = opened.id if opened else "a subagent"
    turns = [line for line in lines if isinstance(line, Ended)]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(name)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(name)}</h1>",
        f'<p class="facts">{escape(_facts(lines, opened, torn))}</p>',
    ]
    if turns:
        parts += ["<h2>Turns</h2>", *_table(turns)]
        parts += ["<h2>Timeline</h2>", *_timeline(lines, turns)]
    parts += ["<h2>Conversation</h2>", *_conversation(lines)]
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _facts(lines: tuple[Line, ...], opened: Opened | None, torn: bool) -> str:
    facts: list[str] = []
    if opened is not None:
        began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(opened.at))
        facts += [f"opened {began}", opened.model or "a function", f"lifetime {opened.lifetime}"]
        if opened.parent:
            facts.append(f"spawned by {opened.parent}")
    lives = sum(isinstance(line, Opened) for line in lines)
    if lives > 1:
        facts.append(f"opened {lives} times")
    last = lines[-1] if lines else None
    if isinstance(last, Finished):
        facts.append("closed" if last.closed else f"not closed: {last.reason}")
    else:
        facts.append("not closed: still open, or lost")
    if torn:
        facts.append("the last line was torn and is left out")
    return " · ".join(facts)


def _table(turns: list[Ended]) -> Iterable[str]:
    yield (
        '<table><tr><th>#</th><th>Task</th><th>Status</th><th class="n">Seconds</th>'
        '<th class="n">Tokens in</th><th class="n">out</th><th class="n">Tools</th>'
        '<th class="n">Dollars</th><th class="n">Context</th></tr>'
    )
    whole = NOTHING
    for number, turn in enumerate(turns, 1):
        whole = whole.accumulate(turn.usage)
        status = escape(turn.status)
        if turn.error is not None:
            status = f'<span class="error" title="{escape(turn.error.message)}">{status}</span>'
        yield (
            f"<tr><td>{number}</td><td>{escape(_short(turn.task))}</td><td>{status}</td>"
            f"{_numbers(turn.usage)}</tr>"
        )
    yield f"<tr><th></th><th>All</th><th></th>{_numbers(whole)}</tr></table>"


def _numbers(usage: Usage) -> str:
    level = "" if usage.context_tokens is None else f"{usage.context_tokens:,}"
    cells = (
        f"{usage.busy_seconds:.1f}",
        f"{usage.input_tokens:,}",
        f"{usage.output_tokens:,}",
        f"{usage.tool_calls:,}",
        f"{usage.cost_usd:.4f}" if usage.cost_usd else "",
        level,
    )
    return "".join(f'<td class="n">{cell}</td>' for cell in cells)


def _timeline(lines: tuple[Line, ...], turns: list[Ended]) -> Iterable[str]:
    first = min(turn.began for turn in turns)
    last = max([turn.at for turn in turns] + [line.at for line in lines if isinstance(line, Used)])
    span = max(last - first, 1e-9)

    def bar(began: float, ended: float, kind: str, label: str) -> str:
        left = 100 * (began - first) / span
        width = 100 * (ended - began) / span
        return (
            f'<i class="{kind}" style="left:{left:.3f}%;width:{width:.3f}%"'
            f' title="{escape(label)}"></i>'
        )

    yield '<div class="bar">'
    for number, turn in enumerate(turns, 1):
        label = f"turn {number}: {turn.status}, {turn.at - turn.began:.1f} s"
        yield bar(turn.began, turn.at, "turn" if turn.status == "ok" else "failed", label)
    yield "</div>"
    used = [line for line in lines if isinstance(line, Used)]
    if used:
        yield '<div class="bar" style="margin-top:3px">'
        for line in used:
            label = f"{line.call.name}: {line.seconds:.1f} s"
            yield bar(line.at - line.seconds, line.at, "failed" if line.is_error else "tool", label)
        yield "</div>"
    yield f'<p class="facts">{span:.1f} s from the first turn to the end of the last</p>'


def _conversation(lines: tuple[Line, ...]) -> Iterable[str]:
    for line in lines:
        match line:
            case Said(message=message):
                kind = "tool-answer" if message.role == "tool" else message.role
                flags = " (cut)" if message.partial else " (error)" if message.is_error else ""
                yield f'<div class="message {kind}"><div class="role">{message.role}{flags}</div>'
                yield f"<pre>{escape(message.text)}</pre>"
                for call in message.calls:
                    said = f"{escape(call.name)}({escape(call.arguments)})"
                    yield f'<div class="code">{said}</div>'
                for attachment in message.attachments:
                    what = attachment.name or "attachment"
                    size = f"{len(attachment.data):,} bytes"
                    kind_of_it = escape(attachment.media_type)
                    yield f'<div class="note">{escape(what)}: {kind_of_it}, {size}</div>'
                yield "</div>"
            case Noted(what=what, text=text):
                yield f'<p class="note">{escape(what)}: {escape(text)}</p>'
            case Ended(error=error) if error is not None:
                yield f'<p class="error">The turn ended: {escape(str(error))}</p>'
            case Opened(note=note) if note:
                yield f'<p class="note">{escape(note)}</p>'
            case _:
                pass


def _short(text: str) -> str:
    first = " ".join(text.split())
    return first if len(first) <= _SHORT else f"{first[: _SHORT - 1]}…"
