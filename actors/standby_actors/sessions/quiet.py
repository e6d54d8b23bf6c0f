"""The logs of the SDKs without the keys of the models that are open.

They leave out the key that they send; what a server says back, in its headers or
in a line that is no HTTP, their transports write at DEBUG as it came.
"""

from __future__ import annotations

import logging
from weakref import WeakValueDictionary

from ..models import ModelSettings

# A filter sees what is logged on its own logger, and not what is on those below it.
_LOGGERS = (
    *("openai", "openai._base_client", "openai._response"),
    *("anthropic", "anthropic._base_client", "anthropic._response"),
    *(
        f"{library}{part}"
        for library in ("httpx2", "httpcore2", "httpx", "httpcore")
        for part in ("", ".connection", ".http11", ".http2", ".proxy", ".socks")
    ),
)

_open: WeakValueDictionary[int, ModelSettings] = WeakValueDictionary()


class _WithoutKeys(logging.Filter):
    """Blots the keys out of a record, which it always lets pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        trace = "" if record.exc_info is None else _formatter.formatException(record.exc_info)
        clean, clean_trace = said, trace
        for settings in list(_open.values()):
            clean, clean_trace = settings.redact(clean), settings.redact(clean_trace)
        if clean != said:
            record.msg, record.args = clean, ()
        if clean_trace != trace:
            # As text alone: whoever formats the exception anew would tell it anew.
            record.exc_text, record.exc_info = clean_trace, None
        return True


_formatter = logging.Formatter()
_filter = _WithoutKeys()


def keep_quiet(settings: ModelSettings) -> None:
    """Keep what is secret in `settings` out of the SDKs' logs, for as long as it is in use."""
    _open[id(settings)] = settings
    for name in _LOGGERS:
        # Adding it again does nothing.
        logging.getLogger(name).addFilter(_filter)
