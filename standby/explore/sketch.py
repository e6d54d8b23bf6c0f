"""What a file defines, without the bodies: for a model that cannot read everything in time.

A sketch is shown instead of the text only where somebody is told so.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator

import msgspec

from standby_combinators.tokens import estimate_tokens

NAMES_LIMIT = 24
"""Most names that are offered for quoting."""
SENTENCES_LIMIT = 6
"""Most sentences that are offered for quoting."""
SENTENCE_LIMIT = 240
"""Characters of the longest sentence that is offered."""


class Definition(msgspec.Struct, frozen=True):
    """Something that a file defines at its outermost level."""

    head: str
    """Its first line, as in "class Cell" or "def spawn(actor, *args)"."""
    name: str
    says: str = ""
    """The first sentence of its own documentation."""
    members: tuple[str, ...] = ()
    """Public names defined inside it."""


class Sketch(msgspec.Struct, frozen=True):
    """The outermost level of a file."""

    says: str
    """What the file says about itself at its top; may be empty."""
    definitions: tuple[Definition, ...]

    def __str__(self) -> str:
        return next(self.renderings())

    def renderings(self) -> Iterator[str]:
        """The sketch as text, the fullest first, each shorter than the one before or equal."""
        first = _sentence(self.says)
        yield _joined(self.says, [_entry(each, members=True) for each in self.definitions])
        yield _joined(first, [_entry(each, members=False) for each in self.definitions])
        yield _joined(first, [each.head for each in self.definitions])
        yield _joined(first, [", ".join(each.name for each in self.definitions)])


def sketch(path: str, text: str) -> Sketch | None:
    """What `text` defines; None if nothing in it can be told apart from the rest.

    Examples:
        >>> print(sketch("a.py", '"Adds numbers."\\ndef add(a, b):\\n    "Their sum."\\n'))
        Adds numbers.
        def add(a, b): Their sum.
    """
    found = _outline(path, text)
    return found if found.definitions else None


def _outline(path: str, text: str) -> Sketch:
    suffix = path.rpartition(".")[2].lower()
    found = _of_python(text) if suffix in ("py", "pyi") else None
    if found is None:
        found = _of_markdown(text) if suffix in ("md", "rst", "markdown") else _of_lines(text)
    return found


def condense(path: str, text: str, tokens: int) -> str | None:
    """The fullest sketch of `text` within `tokens`; the shortest one if none is.

    None where a sketch would not be shorter than the text, or tells nothing.
    """
    found = sketch(path, text)
    if found is None:
        return None
    rendered = ""
    for rendered in found.renderings():
        if estimate_tokens(rendered) <= tokens:
            break
    return rendered if estimate_tokens(rendered) < estimate_tokens(text) else None


def quotable(path: str, text: str, limit: int = NAMES_LIMIT) -> tuple[str, ...]:
    """Names that occur in `text` and are worth quoting, the most telling first.

    Examples:
        >>> quotable("a.py", "class Cell:\\n    def stop(self): ...\\n")
        ('Cell', 'stop')
        >>> quotable("a.txt", "the cat saw the other cat")
        ('cat', 'the', 'other', 'saw')
    """
    found = sketch(path, text)
    names: dict[str, None] = {}
    if found is not None:
        names.update(dict.fromkeys(each.name for each in found.definitions))
        names.update(dict.fromkeys(name for each in found.definitions for name in each.members))
    if not names:
        words = Counter(re.findall(r"[^\W\d]\w{2,}", text))
        # Long words that come often say most about a text of which nothing is known.
        names.update(dict.fromkeys(sorted(words, key=lambda w: (-words[w] * len(w), w))))
    # What is private tells least: it is offered only where there is nothing else.
    public = [name for name in names if not name.startswith("_")]
    return tuple(name for name in public or names if occurs(name, text))[:limit]


def sentences(path: str, text: str, limit: int = SENTENCES_LIMIT) -> tuple[str, ...]:
    """Sentences of `text` that say what it is about, the most general first.

    A sentence is taken whole, or not at all where it is very long.

    Examples:
        >>> sentences("a.py", '"Adds numbers.  Slowly."\\ndef add(a, b):\\n    "Their sum."')
        ('Adds numbers.', 'Their sum.')
        >>> sentences("a.txt", "Dear reader. Hello.\\n\\nIt rains again today. Farewell.")
        ('Dear reader.', 'It rains again today.')
    """
    found = _outline(path, text)
    said = [found.says, *(each.says for each in found.definitions)]
    if not any(said):
        said = [_paragraph(each) for each in re.split(r"\n\s*\n", text)]
    whole = dict.fromkeys(_sentence(each) for each in said)
    fitting = [each for each in whole if 0 < len(each) <= SENTENCE_LIMIT]
    return tuple(fitting[:limit])


def occurs(name: str, text: str) -> bool:
    """Whether `name` stands in `text`, as a word of its own and letter for letter.

    Of a dotted name that does not, each part must.

    Examples:
        >>> occurs("stop", "def stop(self)"), occurs("top", "def stop(self)")
        (True, False)
        >>> occurs("Cell.stop", "class Cell: def stop(self)")
        True
    """
    if not re.search(r"\w", name):
        return False
    if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
        return True
    first, *rest = name.split(".")
    return bool(rest) and all(occurs(part, text) for part in (first, *rest))


def _of_python(text: str) -> Sketch | None:
    try:
        # What the file's author is warned of is not our reader's business.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    # Not this version's Python, or nested too deeply for its parser.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    definitions = [found for node in tree.body if (found := _python_definition(node))]
    return Sketch(_paragraph(ast.get_docstring(tree) or ""), tuple(definitions))


def _python_definition(node: ast.stmt) -> Definition | None:
    match node:
        case ast.ClassDef():
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            members = tuple(
                inner.name
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
                and not inner.name.startswith("_")
            )
            head = f"class {node.name}({bases})" if bases else f"class {node.name}"
            return Definition(head, node.name, _sentence(ast.get_docstring(node) or ""), members)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            word = "def" if isinstance(node, ast.FunctionDef) else "async def"
            head = f"{word} {node.name}({', '.join(each.arg for each in arguments)})"
            return Definition(head, node.name, _sentence(ast.get_docstring(node) or ""))
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return Definition(name, name) if not name.startswith("_") else None
        case _:
            return None


def _of_markdown(text: str) -> Sketch:
    definitions: list[Definition] = []
    fenced = False
    lines = text.splitlines()
    for number, line in enumerate(lines):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        heading = None if fenced else re.match(r"#{1,3} +(.+?) *#*$", line)
        if heading:
            says = _paragraph("\n".join(lines[number + 1 :]).lstrip("\n"))
            if says.startswith(("#", "|", "```", "~~~")):
                says = ""
            definitions.append(Definition(line.strip(), heading[1], _sentence(says)))
    return Sketch("", tuple(definitions))


_HEAD = re.compile(
    r"""
    (?: (?: export | default | pub (?: \([^)]*\) )? | public | private | protected | internal
      | static | abstract | final | async | unsafe | extern | inline | declare ) \s+ )*
    (?: class | def | fn | func | function | struct | enum | trait | interface | type
      | impl | module | namespace | package | record | protocol | defmodule | defp? ) \s+
    (?: \( [^)]* \) \s* )?                # the receiver of a Go method
    (?P<word> [^\W\d] [\w$]* )
    | \[+ \s* (?P<section> [\w.\-]+ ) \s* \]+ \s* $         # TOML, INI
    | (?P<key> [^\W\d] [\w\-]* ) : (?: \s | $ )             # YAML
    | (?P<shell> [^\W\d] [\w\-]* ) \s* \(\) \s* \{          # a function of a shell
    """,
    re.VERBOSE,
)
_COMMENT = re.compile(r"\s*(?:#!?|//+!?|/\*+|\*+/?|--+|%+|;+|\"\"\"|<!--)\s?")


def _of_lines(text: str) -> Sketch:
    """By the words with which most languages begin a definition, at the margin."""
    definitions: list[Definition] = []
    says: list[str] = []
    at_top = True
    for line in text.splitlines():
        if found := _HEAD.match(line):
            at_top = False
            name = next(group for group in found.groups() if group)
            definitions.append(Definition(line.rstrip(" {:").strip()[:120], name))
        elif comment := _COMMENT.match(line):
            if at_top and not line.startswith("#!"):
                says.append(re.sub(r"(\*/|-->|\"\"\")\s*$", "", line[comment.end() :]).strip())
        elif line.strip() or says:
            at_top = False
    return Sketch(_paragraph("\n".join(says)), tuple(definitions))


def _entry(definition: Definition, *, members: bool) -> str:
    entry = definition.head
    if definition.says:
        entry += f": {definition.says}"
    if members and definition.members:
        entry += f"\n    {', '.join(definition.members)}"
    return entry


def _joined(says: str, entries: list[str]) -> str:
    return "\n".join([*([says] if says else []), *entries])


def _paragraph(text: str) -> str:
    return " ".join(text.strip().partition("\n\n")[0].split())


def _sentence(text: str) -> str:
    paragraph = _paragraph(text)
    end = re.search(r"[.!?](?=\s|$)", paragraph)
    return paragraph[: end.end()] if end else paragraph
