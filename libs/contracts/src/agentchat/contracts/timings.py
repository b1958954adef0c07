"""List every duration, in seconds, that two processes must agree on.

tests/contracts/test_timings.py checks the inequalities between them. A duration that concerns only one
process is defined where it is used.
"""

# --- a request -------------------------------------------------------------------------------------
ACCEPT_SECONDS = 15.0
"""A gateway waits so long for `Queued` or `Accepted`; after it, the deadline, workers let the request be."""

LINE_SECONDS = 30.0
"""A message waits so long for its turn in a busy thread, from its request on."""

LINE_SLACK_SECONDS = 5.0
"""A caller in line is waited for so much longer, until `Accepted` or `Refused` has arrived."""

RUN_SECONDS = 600.0
"""A run lasts so long at most, from its request on."""

FOLLOW_SECONDS = 660.0
"""A gateway follows a run so long: the line, the run, its last words."""

ADMIT_LEASE_SECONDS = 60
"""A gateway takes a run's slot for so long; by then its worker renews it."""

HOLD_LEASE_SECONDS = 30
"""A worker renews the slots of its runs to last so long, every RENEW_SECONDS."""

# --- signs of life ---------------------------------------------------------------------------------
ALIVE_SECONDS = 5.0
"""A worker that sends no other frame of a run sends `Alive` this often."""

SILENCE_SECONDS = 10.0
"""A gateway that receives nothing of a run for so long reads TRACES, then the log."""

PING_SECONDS = 15.0
"""A stream that is silent for so long gets a comment line, or clients and proxies would give it up."""

STREAMS_DRAIN_SECONDS = 8.0
"""A stopping gateway gives its open streams so long to end; then `server_shutdown`."""

STOP_SECONDS = 12.0
"""`agentchat up` kills a service that is still there so long after SIGTERM."""

# --- leases, by Postgres' clock --------------------------------------------------------------------
LEASE_SECONDS = 10
"""For so long from its last renewal nobody else gets the lease, by the server's clock."""

HOLD_SECONDS = 8.0
"""For so long from when it sent its last renewal a worker takes the lease for its own, by its own clock."""

RENEW_SECONDS = 3.0
RENEWAL_SECONDS = 2.0
"""A renewal may take so long before it counts as failed."""
RENEW_AGAIN_SECONDS = 0.5

NOTE_SECONDS = 1.0
"""Orchestrators and projectors note this often that Postgres answers."""

BREAK_SECONDS = 3.0
"""Postgres has answered nobody for so long: a break, after which nobody takes over for LEASE_SECONDS."""

GRACE_SECONDS = 15
"""How long after its beginning, and after each request, a run is left to the workers by the sweeper."""

# --- the bus ---------------------------------------------------------------------------------------
ACK_WAIT_SECONDS = 10
"""NATS delivers again what was neither acknowledged nor kept for so long."""

HEARTBEAT_SECONDS = 3.0
"""A consumer reports to NATS this often that it works on a message."""

TRACES_KEPT_SECONDS = 900
"""TRACES, RESULTS and CANCELS keep a message for so long."""

EVENTS_KEPT_DAYS = 30

# --- tools -----------------------------------------------------------------------------------------
TOOL_SECONDS = 30.0
"""A tool call may take so long, its turn among the account's calls included, unless its server has another
time-out.
"""

TOOL_MOST_SECONDS = RUN_SECONDS
"""No call may take longer, whatever its server's time-out."""

TOOL_TURN_SECONDS = 10.0
"""A call waits so long at most for its account's turn on a tool-runner."""

TOOL_SLACK_SECONDS = 5.0
"""A worker waits so much longer than the call may take before it answers the call itself."""

TOOL_ANSWER_SECONDS = 2.0
"""A result is published so long after the deadline of its call at most, and awaited so long."""

TOOLS_LISTED_SECONDS = 9.0
"""A server may take so long to list its tools; slower, it is unavailable this time."""

TOOLS_LIST_SECONDS = 15.0
"""A worker waits so long for the listing of all servers of an agent."""

# --- checks and commands ---------------------------------------------------------------------------
CHECK_SECONDS = 15.0
"""Checking one tool server, or the provider, may take so long."""

CHECK_ANSWER_SECONDS = 20.0
"""The administrator waits so long for the checks of an agent."""

AUTHORIZE_SECONDS = 45.0
"""An administrator waits so long for a link, or for what came of it: some requests to strangers."""

COMMAND_SECONDS = 12.0
"""A worker may take so long to obey a command; to erase, it has to stop a run first."""

COMMAND_ASK_SECONDS = 2.0
"""One worker is waited for so long before another is asked to obey a command."""

COMMAND_ASKS = 7
