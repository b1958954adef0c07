"""`make test`: every test next to others, then the few that failed once more, alone (decision 53).

    python -m tests.second_try [arguments of pytest]

Exits with pytest's code, and with 0 where each test that failed at first has passed alone.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_AT_MOST = 5
"""More failures than that are no accident of timing: the first run's result stands."""
_IN_PARALLEL = ("-n", "6")
"""More than cores: most tests wait."""
_ALONE = ("-n", "0", "--last-failed", "--last-failed-no-failures=none")


def main(arguments: Sequence[str]) -> int:
    """Run pytest once, or twice; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="agentchat-") as cache:
        code = _pytest(cache, *_IN_PARALLEL, *arguments)
        failed = _failed(Path(cache))
        if code != 1 or not 0 < len(failed) <= _AT_MOST:
            return code
        print(f"\n{len(failed)} failed next to other tests; once more, alone:", flush=True)
        code = _pytest(cache, *arguments, *_ALONE)
    if code == 0:
        print("\nFAILED NEXT TO OTHER TESTS, PASSED ALONE", *failed, sep="\n  ", flush=True)
    return code


def _pytest(cache: str, *arguments: str) -> int:
    remembering = ("-o", f"cache_dir={cache}")
    command = [sys.executable, "-m", "pytest", *remembering, *arguments]
    compiling = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    return subprocess.run(command, check=False, env=compiling).returncode


def _failed(cache: Path) -> list[str]:
    """Ids of the tests that failed, as pytest's own cache has them."""
    file = cache / "v/cache/lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
