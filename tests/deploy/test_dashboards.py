"""The dashboards of Grafana: their queries name metrics that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentchat.runtime import metrics
from tests.deploy.queries import load_display_names, metric_names

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
PROMTOOL = shutil.which("promtool")


def _panels() -> list[dict[str, Any]]:
    """Of all committed dashboards."""
    return [
        panel for file in sorted(FOLDER.glob("*.json")) for panel in json.loads(file.read_text())["panels"]
    ]


def _queries() -> list[str]:
    return [target["expr"] for panel in _panels() for target in panel.get("targets", ())]


def test_each_query_names_metrics_that_are_shown() -> None:
    known = load_display_names() | {"up"}
    for query in _queries():
        named = metric_names(query)
        assert named <= known, query
        assert named or "ALERTS{" in query, query


def test_each_metric_is_in_a_panel() -> None:
    named = {name for query in _queries() for name in metric_names(query)}
    for metric in metrics.list_names():
        assert [name for name in named if re.fullmatch(rf"{metric}(_count|_bucket)?", name)], metric


def test_a_legend_names_labels_that_its_query_keeps() -> None:
    for panel in _panels():
        for target in panel.get("targets", ()):
            kept = re.findall(r"by \(([^)]*)\)", target["expr"])
            labels = re.findall(r"{{(\w+)}}", target["legendFormat"])
            assert set(labels) <= set(", ".join(kept).split(", ")), panel["title"]


def test_panels_have_numbers_of_their_own_and_fill_rows_of_24_columns() -> None:
    for file in FOLDER.glob("*.json"):
        panels = json.loads(file.read_text())["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        for panel in panels:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24
            assert panel["type"] == "row" or panel["datasource"]["uid"] == "prometheus"


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
def test_promtool_reads_each_query(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    rules = [
        {"record": f"query{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(_queries())
    ]
    file = tmp_path / "queries.yaml"
    file.write_bytes(msgspec.yaml.encode({"groups": [{"name": "queries", "rules": rules}]}))
    ran = subprocess.run([PROMTOOL, "check", "rules", file], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
