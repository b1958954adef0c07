"""The alerts: each has a unit test and a section of the runbooks, and names metrics that there are."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from agentchat.contracts.errors import ERRORS
from agentchat.tool_runner.faults import FaultKind
from tests.deploy.queries import load_display_names, metric_names

TREE = Path(__file__).parents[2]
FOLDER = TREE / "deploy" / "prometheus"
RUNBOOKS = TREE / "docs" / "operate" / "runbooks.md"
PROMTOOL = shutil.which("promtool")


def _yaml(name: str) -> Any:
    return msgspec.yaml.decode((FOLDER / name).read_bytes())


def _rules(kind: str) -> dict[str, dict[str, Any]]:
    """The rules of a kind, `alert` or `record`, by name."""
    rules = [rule for group in _yaml("alerts.yaml")["groups"] for rule in group["rules"]]
    return {rule[kind]: rule for rule in rules if kind in rule}


def _sections() -> dict[str, str]:
    """The runbooks by the alert in their heading."""
    parts = re.split(r"(?m)^## ", RUNBOOKS.read_text())[1:]
    return {head.strip(): body for head, _, body in (part.partition("\n") for part in parts)}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
@pytest.mark.parametrize(
    "command", [("check", "config", "prometheus.yaml"), ("test", "rules", "alerts_test.yaml")]
)
def test_promtool_accepts_the_rules_and_their_unit_tests_pass(command: tuple[str, str, str]) -> None:
    assert PROMTOOL is not None
    ran = subprocess.run([PROMTOOL, *command], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_rule_names_metrics_that_are_shown_or_recorded() -> None:
    known = load_display_names() | set(_rules("record")) | {"up"}
    for kind in ("alert", "record"):
        for name, rule in _rules(kind).items():
            named = metric_names(rule["expr"])
            assert named <= known, name
            assert named or rule["expr"].startswith("vector("), name


def test_each_count_that_is_recorded_is_one_expression_and_is_used() -> None:
    alerts = " ".join(rule["expr"] for rule in _rules("alert").values())
    for name, rule in _rules("record").items():
        assert name in alerts
        if not rule["expr"].startswith("vector("):
            [metric] = metric_names(rule["expr"])
            window = name.rpartition("increase")[2]
            stem = metric.removesuffix("_total").removesuffix("_count").replace("_seconds", "")
            assert name == f"agentchat:{stem.removeprefix('agentchat_')}:increase{window}"
            counted = f"({metric} - last_over_time({metric}[10m] offset {window}) >= 0) or {metric})"
            assert rule["expr"].endswith(counted)


def test_each_alert_fires_in_a_unit_test_and_does_not_fire_in_another() -> None:
    fired: dict[bool, set[str]] = {True: set(), False: set()}
    for group in _yaml("alerts_test.yaml")["tests"]:
        for expected in group["promql_expr_test"]:
            name = re.search(r'alertname="(\w+)"', expected["expr"])
            assert name is not None, expected
            fired[bool(expected["exp_samples"])].add(name[1])
    assert fired[True] == fired[False] == set(_rules("alert"))


def test_each_alert_has_severity_summary_and_runbook() -> None:
    sections = _sections()
    assert list(sections) == list(_rules("alert"))
    for name, rule in _rules("alert").items():
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        assert rule["annotations"]["summary"].endswith("."), name
        assert rule["annotations"]["runbook_url"] == f"docs/operate/runbooks.md#{name.lower()}"
        kept = re.findall(r"(?m)^\*\*([^*]+)\.\*\*", sections[name])
        assert kept == ["Means", "Users notice", "Confirm", "Do", "Prevent"], name
        assert f"`{rule['labels']['severity']}`" in sections[name], name


def test_rules_name_only_existing_labels() -> None:
    text = (FOLDER / "alerts.yaml").read_text()
    for code in _values(text, "code"):
        assert any(re.fullmatch(code, known) for known in ERRORS), code
    for outcome in _values(text, "outcome"):
        assert outcome in {*ERRORS, *get_args(FaultKind), "delivered", "erased", "failed"}, outcome
    followers = (TREE / "services/projector/src/agentchat/projector/worker.py").read_text()
    for follower in _values(text, "follower"):
        assert f'"{follower}"' in followers
    assert _values(text, "state") == {"failed"}


def _values(text: str, label: str) -> set[str]:
    """What the matchers of a label name."""
    found = re.findall(rf'\b{label}(?:=|=~|!~)"([^"]+)"', text)
    return {value for each in found for value in each.split("|")}


def test_scrape_example_has_every_service_with_a_limit() -> None:
    jobs = {each["job_name"] for each in _yaml("prometheus.yaml")["scrape_configs"]}
    assert jobs == {path.name for path in (TREE / "services").iterdir() if not path.name.endswith("-demo")}
    limits = [
        rule["labels"]["job"]
        for group in _yaml("alerts.yaml")["groups"]
        for rule in group["rules"]
        if rule.get("record") == "agentchat:memory_limit_bytes"
    ]
    assert sorted(limits) == sorted(jobs)


def test_pages_count_the_alerts_correctly() -> None:
    pages = [*(TREE / "docs").rglob("*.md"), *(TREE / "deploy").rglob("*.md"), TREE / "README.md"]
    counts = [int(count) for page in pages for count in re.findall(r"\b(\d+) alerts\b", page.read_text())]
    assert counts
    assert set(counts) == {len(_rules("alert"))}


def test_only_services_that_every_system_needs_must_be_scraped() -> None:
    absent = re.findall(r'absent\(up\{job="([^"]+)"\}\)', (FOLDER / "alerts.yaml").read_text())
    assert set(absent) == {"gateway", "orchestrator", "projector"}
