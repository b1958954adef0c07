"""For a test: says what time it is whenever it is asked by a line."""

import sys
import time

for _ in sys.stdin:
    print(time.time(), time.time_ns(), time.monotonic(), flush=True)
