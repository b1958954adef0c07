"""`agentchat up` with forked services.

python -m tests.support.forked_up GATEWAYS ORCHESTRATORS TOOL_RUNNERS
"""

import sys

from ops.settings import Counts
from ops.up import up
from tests.support.forked import spawn

if __name__ == "__main__":
    gateways, orchestrators, tool_runners = map(int, sys.argv[1:])
    up(Counts(gateways=gateways, orchestrators=orchestrators, tool_runners=tool_runners), spawn)
