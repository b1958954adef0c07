"""A connection over TLS, to servers with a certificate of an authority of their own."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentchat.bus import connection
from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.ops.certificates import Authority
from agentchat.runtime.settings import SettingsError
from tests.bus.nats_server import NatsServer

_TLS = (
    'tls {{ cert_file: "{0}/server.crt", key_file: "{0}/server.key", handshake_first: auto, timeout: 5 }}\n'
)


async def _start_server(folder: Path, host: str) -> NatsServer:
    authority = Authority(datetime.now(UTC))
    certificate, key = authority.issue(host)
    for name, content in (
        ("ca.crt", authority.certificate),
        ("server.crt", certificate),
        ("server.key", key),
    ):
        (folder / name).write_bytes(content)
    server = NatsServer(folder / "nats", _TLS.format(folder))
    await server.start()
    return server


async def test_the_address_names_the_authority_that_is_trusted(tmp_path: Path) -> None:
    server = await _start_server(tmp_path, "localhost")
    try:
        address = f"tls://localhost:{server.port}?ca={tmp_path}/ca.crt"
        async with Bus.connect(f"{address},{address}", name="test") as bus:
            await bus.ping()
    finally:
        await server.kill()


@pytest.mark.parametrize("host", ["another", ""])
async def test_a_server_that_is_not_proved_is_not_used(
    tmp_path: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another name, and one without TLS, which would get the password in the clear."""
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1.5)
    server = await _start_server(tmp_path, host) if host else NatsServer(tmp_path / "nats")
    if not host:
        (tmp_path / "ca.crt").write_bytes(Authority(datetime.now(UTC)).certificate)
        await server.start()
    try:
        with pytest.raises(BusUnavailable):
            async with Bus.connect(f"tls://localhost:{server.port}?ca={tmp_path}/ca.crt", name="test"):
                raise AssertionError("it is connected")
    finally:
        await server.kill()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("ca={0}/none.crt", "names ca={0}/none.crt, which cannot be used: No such file or directory"),
        ("ca={0}/empty.crt", "names ca={0}/empty.crt, which cannot be used: it has no certificate"),
        ("cafile={0}/empty.crt", "has an unknown parameter: cafile"),
    ],
)
async def test_an_authority_that_cannot_be_used_is_refused_by_name(
    tmp_path: Path, query: str, reason: str
) -> None:
    (tmp_path / "empty.crt").write_text("")
    with pytest.raises(SettingsError) as caught:
        async with Bus.connect(f"tls://localhost:4222?{query.format(tmp_path)}", name="test"):
            raise AssertionError("it is connected")
    assert str(caught.value) == f"the address of NATS {reason.format(tmp_path)}"
