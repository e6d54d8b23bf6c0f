"""Interview: a person is asked, question by question, and a brief is written.

Prints:

    Which size? -> large
    A large house.
"""

from __future__ import annotations

import trio

from standby import ScriptedAsker, interview


async def ask(task: str) -> str:
    """Stands in for an interviewer with a model."""
    if task.startswith("Find out"):
        return '{"question": "Which size?", "options": ["small", "large"]}'
    return "READY" if task.startswith("The answer") else "A large house."


async def main() -> None:
    # TerminalAsker() asks on the terminal, PostedAsker() lets a page answer.
    done = await interview(ask, "A house.", ScriptedAsker(["2"]))
    for each in done.answers:
        print(each.question, "->", each.text)
    print(done.output)


if __name__ == "__main__":
    trio.run(main)
