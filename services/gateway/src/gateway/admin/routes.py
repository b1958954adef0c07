"""All addresses of the admin API, in the order of their description."""

from gateway.admin import account_routes, agent_routes, knowledge_routes

ROUTES = (*account_routes.ROUTES, *agent_routes.ROUTES, *knowledge_routes.ROUTES)
