"""List every duration, in seconds, that two processes must agree on.

tests/contracts/test_timings.py checks the inequalities between them. A duration that concerns only one
process is defined where it is used.
"""

# --- a request -------------------------------------------------------------------------------------
ACCEPT_SECONDS = 15.0
"""How long a gateway waits for `Queued` or `Accepted`. Workers ignore the request after this deadline."""

LINE_SECONDS = 30.0
"""How long a message waits for its turn in a busy thread, counted from its request."""

LINE_SLACK_SECONDS = 5.0
"""How much longer a gateway waits for `Accepted` or `Refused` of a message in line."""

RUN_SECONDS = 600.0
"""The longest duration of a run, counted from its request."""

FOLLOW_SECONDS = 660.0
"""How long a gateway follows a run: its wait in line, the run, and its last frames."""

ADMIT_LEASE_SECONDS = 60
"""How long a gateway holds a run's slot; by then its worker renews it."""

HOLD_LEASE_SECONDS = 30
"""How long a worker's renewal holds the slots of its runs; it renews them every RENEW_SECONDS."""

# --- signs of life ---------------------------------------------------------------------------------
ALIVE_SECONDS = 5.0
"""A worker that sends no other frame of a run sends `Alive` this often."""

SILENCE_SECONDS = 10.0
"""After this silence of a run, a gateway reads TRACES, then the log."""

PING_SECONDS = 15.0
"""After this silence a stream gets a comment line; otherwise clients and proxies would close it."""

STREAMS_DRAIN_SECONDS = 8.0
"""How long a stopping gateway lets open streams continue before it sends `server_shutdown`."""

STOP_SECONDS = 12.0
"""How long after SIGTERM `agentchat up` kills a service that has not ended."""

# --- leases, by Postgres' clock --------------------------------------------------------------------
LEASE_SECONDS = 10
"""How long after its last renewal a lease is valid, by the server's clock."""

HOLD_SECONDS = 8.0
"""How long after sending its last renewal a worker treats the lease as its own, by its own clock."""

RENEW_SECONDS = 3.0
RENEWAL_SECONDS = 2.0
"""How long a renewal may take before it counts as failed."""
RENEW_AGAIN_SECONDS = 0.5

NOTE_SECONDS = 1.0
"""Orchestrators and projectors note this often that Postgres answers."""

BREAK_SECONDS = 3.0
"""After this silence of Postgres to all processes, nobody takes over runs for LEASE_SECONDS."""

GRACE_SECONDS = 15
"""How long after its start, and after each request, the sweeper leaves a run to the workers."""

# --- the bus ---------------------------------------------------------------------------------------
ACK_WAIT_SECONDS = 10
"""How long NATS waits for an acknowledgement or a heartbeat before it delivers a message again."""

HEARTBEAT_SECONDS = 3.0
"""A consumer reports to NATS this often that it works on a message."""

TRACES_KEPT_SECONDS = 900
"""How long TRACES, RESULTS and CANCELS keep a message."""

EVENTS_KEPT_DAYS = 30

# --- tools -----------------------------------------------------------------------------------------
TOOL_SECONDS = 30.0
"""The time-out of a tool call, including the wait for its account's turn; a server may have another one."""

TOOL_MOST_SECONDS = RUN_SECONDS
"""No call may take longer, whatever its server's time-out."""

TOOL_TURN_SECONDS = 10.0
"""How long a call waits for its account's turn on a tool-runner."""

TOOL_SLACK_SECONDS = 5.0
"""How much longer than the call's time-out a worker waits before it answers the call itself."""

TOOL_ANSWER_SECONDS = 2.0
"""How long after the deadline of its call a result may be published, and is awaited."""

TOOLS_LISTED_SECONDS = 9.0
"""How long a server may take to list its tools; a slower one counts as unavailable."""

TOOLS_LIST_SECONDS = 15.0
"""How long a worker waits for the tools of all servers of an agent."""

# --- checks and commands ---------------------------------------------------------------------------
CHECK_SECONDS = 15.0
"""How long the check of one tool server, or of the provider, may take."""

CHECK_ANSWER_SECONDS = 20.0
"""How long an administrator waits for the checks of an agent."""

AUTHORIZE_SECONDS = 45.0
"""How long an administrator waits for a link or its outcome, which take requests to other servers."""

COMMAND_SECONDS = 12.0
"""How long a worker may take to execute a command; to erase, it has to stop a run first."""

COMMAND_ASK_SECONDS = 2.0
"""How long one worker is waited for before another one is asked to execute a command."""

COMMAND_ASKS = 7
