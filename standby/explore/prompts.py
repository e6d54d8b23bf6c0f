"""What the members of the team are told, and how much room that leaves for what they are shown."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from standby_actors.agent import Agent
from standby_combinators.tokens import estimate_tokens

from .answers import Style

Role: TypeAlias = Literal["scout", "merger", "synthesiser"]

SCOUT_WRITES = """\
You are a scout. You are shown one file of a project, or a part of it, and a question about the \
project. Answer the question as far as this file is concerned, in one to three sentences, from \
what the file shows and nothing else. If the file has nothing to do with the question, say so.
Give `answer`, and in `names` up to six names from the file, exactly as it spells them, that your \
answer rests on."""

SCOUT_POINTS = """\
You answer a question about a file by pointing at its sentence that answers best, and at names in \
it.

Example:
File parser.py:
Reads dates in any common format.
def parse(text): Turn text into a date.
What does each module do?
{"answer": "Reads dates in any common format.", "names": ["parse"]}"""

MERGER_WRITES = """\
You are shown a question about a project and what scouts answered about the parts of one file of \
it. Make one answer about the file of theirs, in one to three sentences. Give `answer`, and in \
`names` up to six of the names that they gave."""

SYNTHESISER_WRITES = """\
You sum up what scouts found, each in one file of a project. You are given a question and their \
findings. Answer the question from the findings and nothing else. Cite the files that you use by \
their paths, exactly as they are given, and no others; list them in `files` too. A scout that \
failed is a gap: say so if it matters. Write plain text of at most 200 words in `answer`."""

SYNTHESISER_POINTS = """\
You are given findings about files and a question. Point at the few findings that answer the \
question best."""

ANSWER_TOKENS: dict[Style, int] = {"write": 2_000, "point": 450}
"""What a turn keeps free of its context for the answer."""
OVERHEAD_TOKENS = 60
"""What the format of a conversation takes besides its texts."""

PROMPTS: dict[Style, dict[Role, str]] = {
    "write": {
        "scout": SCOUT_WRITES,
        "merger": MERGER_WRITES,
        "synthesiser": SYNTHESISER_WRITES,
    },
    "point": {
        "scout": SCOUT_POINTS,
        "merger": SCOUT_POINTS,
        "synthesiser": SYNTHESISER_POINTS,
    },
}


def window_for(question: str, style: Style, context_tokens: int) -> int:
    """Tokens that are left for a text in a context; less than 1 if there is no room.

    Examples:
        >>> window_for("What is it?", "point", 2048) > 1000
        True
    """
    prompt = max(estimate_tokens(each) for each in PROMPTS[style].values())
    taken = prompt + estimate_tokens(question) + ANSWER_TOKENS[style] + OVERHEAD_TOKENS
    # Tokens are estimated, and for a dense text they come out a tenth too few.
    return int((context_tokens - taken) * 0.9)


def member(role: Role, style: Style, schema: Any) -> Agent:
    """The agent that plays `role`, whose answers are of the type `schema`."""
    small = style == "point"
    return Agent(
        role,
        PROMPTS[style][role],
        schema=schema,
        # Large models are left their own settings: some refuse to be told.
        max_tokens=ANSWER_TOKENS["point"] if small else None,
        temperature=0.0 if small else None,
    )
