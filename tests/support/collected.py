"""Imported by the process that those of xdist are forked from: pytest collects, and so imports, the tests.

TESTS_COLLECTED has pytest's arguments, as JSON (decision 158).
"""

import json
import os

import pytest

pytest.main([*json.loads(os.environ["TESTS_COLLECTED"]), "-n", "0", "--collect-only", "-qq"])
