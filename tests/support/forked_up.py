"""`agentchat up` with forked services.

python -m tests.support.forked_up COUNT..., in the order of `Counts`
"""

import sys

from ops.settings import Counts
from ops.up import up
from tests.support.forked import spawn

if __name__ == "__main__":
    up(Counts(**dict(zip(Counts.__struct_fields__, map(int, sys.argv[1:]), strict=True))), spawn)
