"""A folder for files that all tests of a process share."""

import atexit
import shutil
import tempfile
from pathlib import Path

from agentchat.files.object_store import ObjectStore

_FOLDER = Path(tempfile.mkdtemp(prefix="agentchat-files-"))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)

FILES_URL = _FOLDER.as_uri()
OBJECTS = ObjectStore(FILES_URL)
