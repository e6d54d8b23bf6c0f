"""What a child process is told of our environment: what it needs to run, and no secret."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

PASSED = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "TZ",
        "TMPDIR",
        "TEMP",
        "TMP",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
        "LD_LIBRARY_PATH",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "REQUESTS_CA_BUNDLE",
        "NO_PROXY",
        "no_proxy",
    }
)
"""Names that every child gets, if we have them."""

_PREFIXES = ("LC_",)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def child_environment(
    env: Mapping[str, str] | None = None,
    *,
    names: Iterable[str] = (),
    source: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment of a child: the allow-list, then `names` of ours, then `env`.

    Anything else that we have, keys above all, stays with us.  A proxy is
    passed on unless its address holds a password.

    Args:
        env: values to set; they win.
        names: more of our variables to pass on, a key by its name among them;
            one that is not set is left out.
        source: where to take them from; None for `os.environ`.

    Examples:
        >>> ours = {"PATH": "/bin", "OPENAI_API_KEY": "sk", "LC_ALL": "C", "EDITOR": "ed"}
        >>> child_environment({"A": "1"}, source=ours)
        {'PATH': '/bin', 'LC_ALL': 'C', 'A': '1'}
        >>> child_environment(names=["OPENAI_API_KEY"], source={"OPENAI_API_KEY": "sk"})
        {'OPENAI_API_KEY': 'sk'}
    """
    ours = os.environ if source is None else source
    named = frozenset(names)
    passed: dict[str, str] = {}
    for name, value in ours.items():
        harmless = name in PASSED or name.startswith(_PREFIXES)
        if name in named or harmless or (name in _PROXIES and "@" not in value):
            passed[name] = value
    return passed | dict(env or {})
