"""All handlers of the public API, by feature."""

from gateway import approvals, conversations, docs, oauth_callback, protocols, status, webhooks
from gateway.traces.cancel_run import cancel
from gateway.traces.follow_run import events

ROUTES = (
    *protocols.HANDLERS,
    cancel,
    events,
    conversations.ROUTER,
    approvals.ROUTER,
    webhooks.ROUTER,
    *oauth_callback.HANDLERS,
    *status.HANDLERS,
    *docs.HANDLERS,
)
