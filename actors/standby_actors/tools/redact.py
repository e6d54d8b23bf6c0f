"""Text without the secrets that this process knows of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

_SECRET_NAME = re.compile(
    r"(^|_)(API_?|PRIVATE_?|ACCESS_?)?KEYS?(_|$)|TOKEN|SECRET|PASSW|CREDENTIAL|AUTHORIZATION",
    re.IGNORECASE,
)
# Shorter ones occur by chance, and no secret is as short.
_SHORTEST = 8
HIDDEN = "[secret]"


def secrets_of(env: Mapping[str, str]) -> frozenset[str]:
    """The values in `env` whose names say that they are secret.

    Examples:
        >>> secrets_of({"OPENAI_API_KEY": "sk-12345678", "HOME": "/home/ann"})
        frozenset({'sk-12345678'})
    """
    return frozenset(
        value.strip()
        for name, value in env.items()
        if len(value.strip()) >= _SHORTEST and _SECRET_NAME.search(name)
    )


def redact(text: str, more: Iterable[str] = ()) -> str:
    """`text` with every secret of the environment, and each of `more`, hidden.

    Examples:
        >>> redact("GET /?k=s3cr3t-canary refused", ["s3cr3t-canary"])
        'GET /?k=[secret] refused'
    """
    # The longest first: one may be a part of another.
    for secret in sorted({*secrets_of(os.environ), *more}, key=len, reverse=True):
        if secret:
            text = text.replace(secret, HIDDEN)
    return text
