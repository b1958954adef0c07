"""All handlers of the public API, by feature."""

from gateway import docs, oauth_callback, protocols, status
from gateway.approvals import routes as approvals
from gateway.conversations import feedback_routes
from gateway.conversations import routes as conversations
from gateway.traces.cancel_run import cancel
from gateway.traces.follow_run import events
from gateway.webhooks import routes as webhooks

ROUTES = (
    *protocols.HANDLERS,
    cancel,
    events,
    conversations.ROUTER,
    feedback_routes.ROUTER,
    approvals.ROUTER,
    webhooks.ROUTER,
    *oauth_callback.HANDLERS,
    *status.HANDLERS,
    *docs.HANDLERS,
)
