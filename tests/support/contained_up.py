"""`agentchat up` with services in containers.

python -m tests.support.contained_up COUNT..., in the order of `Counts`
"""

import sys

from agentchat.ops.settings import ProcessCounts
from agentchat.ops.up import run_stack
from tests.support.contained import STACK_SECONDS, spawn

if __name__ == "__main__":
    counts = ProcessCounts(**dict(zip(ProcessCounts.__struct_fields__, map(int, sys.argv[1:]), strict=True)))
    run_stack(counts, spawn, start_seconds=STACK_SECONDS)
