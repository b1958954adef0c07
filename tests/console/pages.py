"""A browser without scripts: it follows links, keeps cookies and sends forms with their hidden fields."""

import re
from collections.abc import Mapping
from html import unescape
from html.parser import HTMLParser
from types import TracebackType
from typing import Any

import httpx


class Browser:
    """Closed at the end of its block. It sends cookies that are for TLS alone too."""

    def __init__(self, url: str, headers: dict[str, str] | None = None, **options: Any) -> None:
        self.url = url
        self.cookies: dict[str, str] = {}
        self.http = httpx.AsyncClient(
            base_url=url,
            timeout=30,
            headers=headers,
            **{"follow_redirects": True} | options,
            event_hooks={"request": [self._send_cookies], "response": [self._keep_cookies]},
        )

    async def _send_cookies(self, request: httpx.Request) -> None:
        request.headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    async def _keep_cookies(self, response: httpx.Response) -> None:
        for each in response.headers.get_list("set-cookie"):
            name, _, value = each.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')

    async def __aenter__(self) -> "Browser":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.http.aclose()

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.http.get(path, headers=headers)

    async def open_page(self, path: str) -> str:
        """The text of a page as a person reads it."""
        response = await self.get(path)
        assert response.status_code == 200, response.text
        return extract_text(response.text)

    async def load_form_token(self, path: str = "/health") -> str:
        found = re.search(r'"x-form-token": "([0-9a-f]+)"', (await self.get(path)).text)
        assert found is not None
        return found[1]

    async def submit(self, html: str, **written: str | list[str]) -> httpx.Response:
        """The first form of a page, as it is but for what is `written`."""
        form = html[html.index('<form method="post"') :].partition("</form>")[0]
        action = re.search(r'action="([^"]+)"', form)
        assert action is not None
        fields: dict[str, str | list[str]] = {}
        for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form):
            fields[name] = [*fields.get(name, ()), unescape(value)]
        return await self.http.post(unescape(action[1]), data=fields | written)

    async def post(self, path: str, fields: Mapping[str, str | list[str]], **headers: str) -> httpx.Response:
        """A form of our own pages, with the session's token."""
        data = {"_csrf_token": await self.load_form_token(), **fields}
        return await self.http.post(path, data=data, headers=headers)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def extract_text(html: str) -> str:
    """Without tags, and each run of blanks as one."""
    parser = _Text()
    parser.feed(html)
    return " ".join(" ".join(parser.parts).split())


class _Form(HTMLParser):
    def __init__(self, action: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._action, self._is_inside, self._name, self._text = action, False, "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        match tag:
            case "form":
                self._is_inside = given.get("action") == self._action
            case "input" if self._is_inside and (given.get("type") != "checkbox" or "checked" in given):
                blank = "on" if given.get("type") == "checkbox" else ""
                self.fields[given["name"]] = given.get("value", blank)
            case "textarea" | "select" if self._is_inside:
                self._name, self._text = given["name"], ""
            case "option" if "selected" in given:
                self.fields[self._name] = given["value"]

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._is_inside:
            self.fields[self._name] = self._text.removeprefix("\n")
        self._is_inside = self._is_inside and tag != "form"


def extract_form(html: str, action: str) -> dict[str, str]:
    """What a browser sends of the form with this action, as it is."""
    parser = _Form(action)
    parser.feed(html)
    return parser.fields
