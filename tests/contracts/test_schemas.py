"""The JSON Schemas of the public feed: valid by a third party's judgement, and each takes its example."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from agentchat.contracts import schemas

FILES = schemas.render_schemas()


def test_schema_files_are_written(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "agentchat.contracts.schemas", tmp_path], check=True)
    written = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert written == FILES
    assert "events/MessageSaved.json" in written


@pytest.mark.parametrize("name", FILES)
def test_schema_is_valid_and_takes_its_example(name: str) -> None:
    schema = json.loads(FILES[name])
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    (example,) = schema["examples"]
    validator.validate(example)
    for field in schema["required"]:
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({key: value for key, value in example.items() if key != field})
