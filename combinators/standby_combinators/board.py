"""A board: what members of a swarm say to each other, in one order, each word handed to each once.

It has one writer at a time, because nothing that it does waits: whoever posts, has posted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec
import trio
from attrs import define, field, frozen

PostKind: TypeAlias = Literal["ask", "tell", "result", "claim", "release", "hold"]
POST_KINDS: tuple[PostKind, ...] = get_args(PostKind)


class Post(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """One word on the board."""

    id: str
    """As in "p3"."""
    by: str
    """Who said it, as the board knows, and not as the text says."""
    kind: PostKind
    text: str
    at: float
    """Seconds since the first post."""
    to: str = ""
    """The one reader; empty for all."""
    re: str = ""
    """The id of the post that this answers."""


class PostRefused(msgspec.Struct, frozen=True):
    """A word that was not taken."""

    reason: str
    """Why, and what to do, in a sentence for whoever said it."""


class Handout(msgspec.Struct, frozen=True):
    """What is new for a reader."""

    posts: tuple[Post, ...]
    waiting: int
    """How many more there are."""


@frozen(kw_only=True)
class BoardLimits:
    """How much a board takes."""

    posts: int = 200
    characters: int = 2_000
    """Of one post."""
    posts_each: int = 50
    """By one member."""


@define(eq=False)
class Board:
    """What was said, in order; nothing is changed or taken back.

    Args:
        members: who may be addressed; None for whoever has a name.
        limits: how much it takes.

    Examples:
        >>> board = Board(clock=lambda: 0.0)
        >>> board.post("scout@1", "tell", "The door is open.").id
        'p1'
        >>> board.handout("scout@2").posts[0].by, board.handout("scout@2").posts
        ('scout@1', ())
        >>> board.handout("scout@1").posts
        ()
        >>> board.post("scout@1", "tell", "The door is open.").reason
        'you have said that already: it is p1'
    """

    members: Sequence[str] | None = None
    limits: BoardLimits = field(factory=BoardLimits)
    clock: Callable[[], float] = trio.current_time
    _posts: list[Post] = field(init=False, factory=list[Post])
    _cursors: Counter[str] = field(init=False, factory=Counter[str])
    _counts: Counter[str] = field(init=False, factory=Counter[str])
    _woken: list[Callable[[], object]] = field(init=False, factory=list[Callable[[], object]])
    _began: float | None = field(init=False, default=None)

    @property
    def posts(self) -> tuple[Post, ...]:
        """Everything that was said."""
        return tuple(self._posts)

    def post(
        self, by: str, kind: PostKind, text: str, *, to: str = "", re: str = ""
    ) -> Post | PostRefused:
        """Say something, to all or to one; why not, if it is not taken."""
        text = text.strip()
        why = self._why_not(by, kind, text, to, re)
        if why:
            return PostRefused(why)
        if self._began is None:
            self._began = self.clock()
        at = self.clock() - self._began
        post = Post(f"p{len(self._posts) + 1}", by, kind, text, at, to, re)
        self._posts.append(post)
        self._counts[by] += 1
        for wake in list(self._woken):
            wake()
        return post

    def handout(self, reader: str, limit: int | None = None) -> Handout:
        """What `reader` has not been handed yet, at most `limit`; what answers it comes first.

        Its own words are not handed back.  Each other word is handed to it once.
        """
        start = self._cursors[reader]
        new: list[Post] = []
        end = start
        for place in range(start, len(self._posts)):
            if limit is not None and len(new) >= limit:
                break
            end = place + 1
            if self._is_for(reader, self._posts[place]):
                new.append(self._posts[place])
        self._cursors[reader] = end
        waiting = sum(self._is_for(reader, post) for post in self._posts[end:])
        mine = {post.id for post in self._posts if post.by == reader}
        new.sort(key=lambda post: post.re not in mine)
        return Handout(tuple(new), waiting)

    def has_news(self, reader: str) -> bool:
        """Whether :meth:`handout` would hand `reader` anything."""
        return any(self._is_for(reader, post) for post in self._posts[self._cursors[reader] :])

    def on_post(self, wake: Callable[[], object]) -> None:
        """Have `wake` called after every post; it must neither wait nor raise."""
        self._woken.append(wake)

    def _is_for(self, reader: str, post: Post) -> bool:
        return post.by != reader and post.to in ("", reader)

    def _why_not(self, by: str, kind: str, text: str, to: str, re: str) -> str:
        limits = self.limits
        if kind not in POST_KINDS:
            return f"a post is one of {', '.join(POST_KINDS)}, not {kind!r}"
        if not text:
            return "a post says something: this one is blank"
        if len(text) > limits.characters:
            most = limits.characters
            return f"a post has at most {most} characters, and this has {len(text)}: shorten it"
        if len(self._posts) >= limits.posts:
            return f"the board is full: it takes {limits.posts} posts"
        if self._counts[by] >= limits.posts_each:
            return f"you have posted {limits.posts_each} times, which is the most for one member"
        if to and self.members is not None and to not in self.members:
            return f"there is no {to!r}: members are {', '.join(self.members)}"
        if re and all(post.id != re for post in self._posts):
            return f"there is no post {re!r} to answer"
        same = (by, kind, text, to, re)
        for post in self._posts:
            if (post.by, post.kind, post.text, post.to, post.re) == same:
                return f"you have said that already: it is {post.id}"
        return ""


def board_lines(posts: Sequence[Post], reader: str, mine: Sequence[str] = ()) -> str:
    """`posts` as a member reads them; what answers `mine`, ids of its own, is set apart.

    Examples:
        >>> one = Post("p3", "scout@1", "tell", "It is open.", 0.0)
        >>> other = Post("p4", "scout@1", "tell", "By the door.", 0.0, "scout@2", "p1")
        >>> print(board_lines([other, one], "scout@2", ["p1"]))
        Answering you:
        p4 scout@1 -> scout@2 [tell] By the door.
        p3 scout@1 -> all [tell] It is open.
    """
    lines: list[str] = []
    answers = [post for post in posts if post.re in mine]
    if answers:
        lines.append("Answering you:")
    for post in [*answers, *(post for post in posts if post not in answers)]:
        lines.append(f"{post.id} {post.by} -> {post.to or 'all'} [{post.kind}] {post.text}")
    return "\n".join(lines)
