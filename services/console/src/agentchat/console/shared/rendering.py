"""Render pages and parts of pages from templates."""

from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar.plugins.jinja import JinjaTemplateEngine
from litestar.response import Template
from litestar.template import TemplateConfig

from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, find_session, get_form_token, get_rights
from agentchat.console.shared.assets import Assets
from agentchat.console.shared.periods import PERIODS
from agentchat.console.shared.template_filters import FILTERS
from agentchat.conversations.queries.sorted_list import MOST

FOLDER = Path(__file__).parents[1] / "templates"
_MACROS = {
    "parts": "parts/macros.html",
    "forms": "parts/forms.html",
    "tables": "parts/tables.html",
    "trial": "parts/trial_macros.html",
}
"""The macros that every template may use, by name."""


class NavigationEntry(msgspec.Struct, frozen=True):
    """A page in the navigation. Its icon in `icons.svg` is named like its path."""

    path: str
    name: str

    @property
    def icon(self) -> str:
        """The id of the icon in `icons.svg`."""
        return self.path.strip("/")


NAVIGATION = (
    NavigationEntry("/now", "Now"),
    NavigationEntry("/conversations", "Conversations"),
    NavigationEntry("/runs", "Runs"),
    NavigationEntry("/approvals", "Approvals"),
    NavigationEntry("/what-if", "What if"),
    NavigationEntry("/playground", "Playground"),
    NavigationEntry("/agents", "Agents"),
    NavigationEntry("/accounts", "Accounts"),
    NavigationEntry("/webhooks", "Webhooks"),
    NavigationEntry("/audit", "Audit"),
    NavigationEntry("/health", "Health"),
)


def build_environment(assets: Assets, currency: str) -> Environment:
    """Build Jinja's environment. All values are escaped; an undefined name is an error."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    made.globals.update(
        asset=assets.build_url, navigation=NAVIGATION, most=MOST, currency=currency, periods=PERIODS
    )
    for name, template in _MACROS.items():
        made.globals[name] = made.get_template(template).module
    return made


def build_template_config(templates: Environment) -> TemplateConfig[JinjaTemplateEngine]:
    """Build Litestar's configuration of templates."""
    return TemplateConfig(instance=JinjaTemplateEngine.from_environment(templates))


def render_page(request: AnyRequest, template: str, *, status_code: int = 200, **context: Any) -> Template:
    """Render a page or a part of one. The context of a page must have `title`.

    Browsers may not store pages, since they contain what customers said.
    """
    return Template(
        template,
        context={
            "path": request.url.path,
            "rehearsal": get_services(request).settings.rehearsal,
            "session": find_session(request),
            "waiting": getattr(request.state, "waiting", None),
            **build_shared_context(request),
            **context,
        },
        status_code=status_code,
        headers={"cache-control": "no-store", "vary": "hx-request"},
    )


def build_shared_context(request: AnyRequest) -> dict[str, Any]:
    """Return the context of all pages and parts: `may("POST /accounts")` and the form token."""
    return {"may": get_rights(request), "form_token": get_form_token(request)}
