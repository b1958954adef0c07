"""Says what it was started with, and ends with the code of its argument, or waits."""

import os
import signal
import sys

if __name__ == "__main__":
    print(sys.argv, dict(os.environ), flush=True)
    if sys.argv[1] == "wait":
        signal.pause()
    sys.exit(int(sys.argv[1]))
