"""Pages and parts of pages from templates."""

from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar.plugins.jinja import JinjaTemplateEngine
from litestar.response import Template
from litestar.template import TemplateConfig

from agentchat.console.frame.access import AnyRequest, form_token, rights_of, visitor
from agentchat.console.frame.assets import Assets
from agentchat.console.frame.filters import FILTERS

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
    made.globals.update(asset=assets.url, navigation=NAVIGATION)
    return made


def template_config(templates: Environment) -> TemplateConfig[JinjaTemplateEngine]:
    return TemplateConfig(instance=JinjaTemplateEngine.from_environment(templates))


def page(request: AnyRequest, template: str, *, status_code: int = 200, **context: Any) -> Template:
    """A page, or a part of one. `title` is in the context of a page; the frame's own values are added.

    Pages are never stored by a browser: they hold what customers have said.
    """
    return Template(
        template,
        context={
            "path": request.url.path,
            "session": visitor(request),
            "waiting": getattr(request.state, "waiting", None),
            **shared_context(request),
            **context,
        },
        status_code=status_code,
        headers={"cache-control": "no-store", "vary": "hx-request"},
    )


def shared_context(request: AnyRequest) -> dict[str, Any]:
    """Return what parts of pages know too: `may("POST /accounts")`, and the token of forms."""
    return {"may": rights_of(request), "form_token": form_token(request)}
