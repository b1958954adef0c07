"""DNS rebinding: whose requests are taken."""

import pytest

from mcp_demo.hosts import Hosts, bound_name
from tests.mcp_demo.demo_server import DemoServer

pytestmark = pytest.mark.requirement("MCP-HOSTS")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_foreign_host_is_refused_on_every_method(server: DemoServer, method: str) -> None:
    response = server.http.request(method, "/api/mcp", headers={"host": "rebound.example:8080"})

    assert response.status_code == 421
    assert response.json()["error"]["code"] == -32600


@pytest.mark.parametrize(
    "origin", ["http://rebound.example", "https://localhost.evil.example", "null", "file://"]
)
def test_a_foreign_origin_is_refused(server: DemoServer, origin: str) -> None:
    response = server.http.get("/api/mcp", headers={"origin": origin})

    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1", "http://[::1]:5173"])
def test_a_page_of_this_machine_is_taken(server: DemoServer, origin: str) -> None:
    assert server.http.get("/api/mcp", headers={"origin": origin}).status_code == 200


@pytest.mark.parametrize(
    ("host", "taken"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("127.0.0.1:1", True),
        ("[::1]:80", True),
        ("tools.example", True),
        ("tools.example:99", True),
        ("shop.example:8443", True),
        ("shop.example", False),
        ("shop.example:8444", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example#localhost", False),
        ("localhost@evil.example", False),
        ("127.0.0.2", False),
        ("", False),
    ],
)
def test_names_are_taken_on_every_port_unless_one_is_given(host: str, taken: bool) -> None:
    hosts = Hosts(["tools.example", "shop.example:8443"])
    assert (hosts.refusal([host], []) is None) is taken


def test_two_host_headers_or_none_are_a_bad_request() -> None:
    for values in ([], ["localhost", "localhost"]):
        refusal = Hosts([]).refusal(values, [])
        assert refusal is not None
        assert refusal.status == 400


def test_an_address_that_means_all_of_them_is_no_name() -> None:
    assert bound_name("0.0.0.0") == bound_name("::") == ()
    assert bound_name("fe80::1") == ("[fe80::1]",)
    assert bound_name("10.0.0.7") == ("10.0.0.7",)
