"""DNS rebinding: which Host and Origin are accepted."""

from collections.abc import Iterator

import pytest

from agentchat.mcp_demo.app import LOOPBACK, build_security_settings
from tests.mcp_demo.demo_server import DemoServer, run_demo_server


@pytest.fixture(scope="module")
def server_with_hosts() -> Iterator[DemoServer]:
    with run_demo_server(AGENTCHAT_MCP_HOSTS="tools.example, shop.example:8443") as server:
        yield server


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_foreign_host_is_refused_on_every_method(server: DemoServer, method: str) -> None:
    headers = {"host": "rebound.example:8080", "content-type": "application/json"}
    assert server.http.request(method, "/api/mcp", headers=headers).status_code == 421


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "origin", ["http://rebound.example", "https://localhost.evil.example", "null", "file://"]
)
def test_a_foreign_origin_is_refused(server: DemoServer, method: str, origin: str) -> None:
    headers = {"origin": origin, "content-type": "application/json"}
    response = server.http.request(method, "/api/mcp", headers=headers)

    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:6274", "http://127.0.0.1", "http://[::1]:5173", "https://shop.example:8443"],
)
def test_a_page_of_an_accepted_name_is_accepted(server_with_hosts: DemoServer, origin: str) -> None:
    assert server_with_hosts.http.get("/api/mcp", headers={"origin": origin}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("tools.example", 200),
        ("tools.example:99", 200),
        ("shop.example:8443", 200),
        ("shop.example", 421),
        ("shop.example:8444", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost@evil.example", 421),
        ("127.0.0.2", 421),
        ("", 421),
    ],
)
def test_a_name_is_accepted_on_every_port_unless_one_is_given(
    server_with_hosts: DemoServer, host: str, status: int
) -> None:
    assert server_with_hosts.http.get("/api/mcp", headers={"host": host}).status_code == status


def test_the_address_bound_to_is_accepted_unless_it_means_all() -> None:
    for bound in ("0.0.0.0", "::"):
        assert {host.removesuffix(":*") for host in build_security_settings(bound, []).allowed_hosts} == set(
            LOOPBACK
        )
    assert {"[fe80::1]", "[fe80::1]:*"} <= set(build_security_settings("fe80::1", []).allowed_hosts)
    assert {"10.0.0.7", "10.0.0.7:*"} <= set(build_security_settings("10.0.0.7", []).allowed_hosts)
