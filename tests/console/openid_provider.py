"""A provider of OpenID Connect on loopback: authorization code with PKCE, tokens with real signatures.

A test changes what it puts into ID tokens, with which key it signs, and what its document says.
"""

import base64
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from tests.console.embedded import URL

CLIENT, SECRET = "console", "the client's secret"
EVERYBODY = {"sub": "user-1", "preferred_username": "ada", "groups": ["staff"]}

Answer = tuple[int, dict[str, str], bytes]


class OpenIdProvider:
    """`claims` is what its tokens say of whoever signs in; `changed` goes over what every token has, None
    takes a claim away. `signing` and `published` are its keys. `document` goes over its document. Where it
    `gives_refresh`, each refresh token is good once, and what it is asked for is in `refreshes`; it sets
    `was_asked`, and answers that once it `may_answer`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.refusal = ""
        self.is_away = False
        self.claims: dict[str, Any] = dict(EVERYBODY)
        self.changed: dict[str, Any] = {}
        self.document: dict[str, Any] = {}
        self.signing = self.published = RSAKey.generate_key(2048, {"kid": "first"})
        self.algorithm = "RS256"
        self.token_requests: list[dict[str, str]] = []
        self.gives_refresh = False
        self.refreshes: list[str] = []
        self.was_asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()
        self._refresh_tokens: set[str] = set()
        self._codes: dict[str, dict[str, str]] = {}

    def answer(self, path: str, query: dict[str, str], form: dict[str, str], authorization: str) -> Answer:
        match path:
            case "/.well-known/openid-configuration":
                return _encode_json(200, self._send_document() | self.document)
            case "/keys":
                return _encode_json(200, KeySet([self.published]).as_dict(private=False))
            case "/authorize":
                return self._authorize(query)
            case "/token":
                return self._send_token(form, authorization)
        return _encode_json(404, {})

    def _send_document(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        }

    def _authorize(self, query: dict[str, str]) -> Answer:
        """The person has agreed already."""
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT)
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self._codes[code] = query
        back = {"error": self.refusal} if self.refusal else {"code": code}
        location = f"{query['redirect_uri']}?{urlencode({**back, 'state': query['state']})}"
        return 302, {"location": location}, b""

    def _send_token(self, form: dict[str, str], authorization: str) -> Answer:
        self.token_requests.append(form)
        if self.is_away:
            return 503, {}, b"Try later."
        if form["grant_type"] == "refresh_token":
            return self._refresh(form["refresh_token"])
        asked = self._codes.pop(form["code"], None)
        if authorization != f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}":
            return _encode_json(401, {"error": "invalid_client"})
        if (
            asked is None
            or asked["redirect_uri"] != form["redirect_uri"]
            or asked["code_challenge"] != create_s256_code_challenge(form["code_verifier"])
        ):
            return _encode_json(400, {"error": "invalid_grant", "error_description": "the code is not good"})
        return self._issue(nonce=asked["nonce"])

    def _refresh(self, token: str) -> Answer:
        self.refreshes.append(token)
        self.was_asked.set()
        self.may_answer.wait(10)
        if token not in self._refresh_tokens:
            return _encode_json(400, {"error": "invalid_grant", "error_description": "the session is over"})
        self._refresh_tokens.remove(token)
        return self._issue()

    def end_sessions(self) -> None:
        """As where people are disabled."""
        self._refresh_tokens.clear()

    def _issue(self, **more: str) -> Answer:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, **more}
        claims |= self.claims | self.changed
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": self.algorithm, "kid": self.signing.kid}
        if self.algorithm == "none":  # joserfc makes none of these
            signed = ".".join([*map(_encode_part, (header, claims)), ""])
        else:
            signed = jwt.encode(header, claims, self.signing, algorithms=[self.algorithm])
        issued = {"access_token": "a", "token_type": "Bearer", "id_token": signed}
        if self.gives_refresh:
            issued["refresh_token"] = secrets.token_hex(16)
            self._refresh_tokens.add(issued["refresh_token"])
        return _encode_json(200, issued)


def name_provider(provider: OpenIdProvider, roles: str, **more: str) -> dict[str, str]:
    """The settings of a console where people sign in at the provider, with `more` of its own."""
    named = {"ISSUER": provider.url, "CLIENT_ID": CLIENT, "CLIENT_SECRET": SECRET, "ROLES": roles} | more
    return {f"AGENTCHAT_CONSOLE_OIDC_{name}": value for name, value in named.items()} | {
        "AGENTCHAT_CONSOLE_URL": URL
    }


def _encode_part(value: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def _encode_json(status: int, body: object) -> Answer:
    return status, {"content-type": "application/json"}, msgspec.json.encode(body)


@contextmanager
def run_openid_provider() -> Iterator[OpenIdProvider]:
    """It answers while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def _respond(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            query, form = (dict(parse_qsl(text)) for text in (parts.query, body))
            authorization = self.headers.get("authorization", "")
            status, headers, content = provider.answer(parts.path, query, form, authorization)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _respond  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = OpenIdProvider(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
