"""All handlers of the public API, by feature."""

from gateway import approvals, conversations, docs, doors, status, webhooks
from gateway.traces.cancel import cancel
from gateway.traces.events import events

ROUTES = (
    *doors.HANDLERS,
    cancel,
    events,
    conversations.ROUTER,
    approvals.ROUTER,
    webhooks.ROUTER,
    *status.HANDLERS,
    *docs.HANDLERS,
)
