"""Pages and parts of pages from templates."""

from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar.datastructures import Cookie
from litestar.plugins.jinja import JinjaTemplateEngine
from litestar.response import Template
from litestar.template import TemplateConfig

from console.console_services import services_of
from console.frame.access import TOKEN_FIELD, AnyRequest, cookie_name, is_secure, rights_of, visitor
from console.frame.assets import Assets
from console.frame.filters import FILTERS
from console.frame.sessions import ConsoleSession

FOLDER = Path(__file__).parents[1] / "templates"


class NavigationEntry(msgspec.Struct, frozen=True):
    """A page in the navigation. Its icon in `icons.svg` has the name of its path."""

    path: str
    name: str

    @property
    def icon(self) -> str:
        return self.path.strip("/")


NAVIGATION = (
    NavigationEntry("/now", "Now"),
    NavigationEntry("/conversations", "Conversations"),
    NavigationEntry("/approvals", "Approvals"),
    NavigationEntry("/what-if", "What if"),
    NavigationEntry("/playground", "Playground"),
    NavigationEntry("/agents", "Agents"),
    NavigationEntry("/accounts", "Accounts"),
    NavigationEntry("/webhooks", "Webhooks"),
    NavigationEntry("/audit", "Audit"),
    NavigationEntry("/health", "Health"),
)


def environment(assets: Assets) -> Environment:
    """Jinja over our templates. Everything is escaped; a name that is not given is an error."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    made.globals.update(asset=assets.url, navigation=NAVIGATION, token_field=TOKEN_FIELD)
    return made


def template_config(templates: Environment) -> TemplateConfig[JinjaTemplateEngine]:
    return TemplateConfig(instance=JinjaTemplateEngine.from_environment(templates))


def page(request: AnyRequest, template: str, *, status_code: int = 200, **context: Any) -> Template:
    """A page, or a part of one. `title` is in the context of a page; the frame's own values are added.

    Pages are never stored by a browser: they hold what customers have said.
    """
    session = visitor(request)
    return Template(
        template,
        context={
            "path": request.url.path,
            "session": session,
            "waiting": getattr(request.state, "waiting", None),
            **shared_context(request, session),
            **context,
        },
        status_code=status_code,
        headers={"cache-control": "no-store", "vary": "hx-request"},
        cookies=_cookies(request, session),
    )


def shared_context(request: AnyRequest, session: ConsoleSession | None) -> dict[str, Any]:
    """What parts of pages know too: `may("POST /accounts")`, and the token of forms."""
    token = "" if session is None else services_of(request).sessions.form_token(session)
    return {"may": rights_of(request), "form_token": token}


def _cookies(request: AnyRequest, session: ConsoleSession | None) -> list[Cookie]:
    is_new = session is not None and getattr(request.state, "is_new_session", False)
    return [session_cookie(request, session)] if session is not None and is_new else []


def session_cookie(request: AnyRequest, session: ConsoleSession) -> Cookie:
    """No script, no other site and no other address gets it."""
    return _cookie(request, services_of(request).sessions.sealed(session))


def ended_cookie(request: AnyRequest) -> Cookie:
    """Takes the session's place. With the prefix in its name a browser ignores one that is not `secure`."""
    return _cookie(request, "", max_age=0)


def _cookie(request: AnyRequest, value: str, max_age: int | None = None) -> Cookie:
    services = services_of(request)
    return Cookie(
        cookie_name(services),
        value=value,
        max_age=max_age,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_secure(services),
    )
