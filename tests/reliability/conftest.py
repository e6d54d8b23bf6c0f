"""What tests of reliability share."""

from __future__ import annotations

import ssl

import pytest

_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture
def no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading those of the world takes each client 0.1 s, and loopback speaks no TLS."""
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: _NO_CERTIFICATES)
