"""`agentchat eval check`: what the owner of a suite expects of one case."""

from typing import Annotated, Any

import typer
import yaml
from msgspec.structs import replace

from evals.case_file import change_case
from evals.cases import Case
from evals.errors import NotACase
from evals.judging.evaluator_registry import evaluator
from ops import printing
from ops.errors import SetupError
from ops.evals.show_suite import SuiteFolder, suite_at, suite_errors


def check(
    folder: SuiteFolder,
    case: Annotated[str, typer.Argument(metavar="CASE", help="The case: the trace id of its run.")],
    name: Annotated[str, typer.Argument(metavar="EVALUATOR", help="Who judges it, such as contains.")],
    expected: Annotated[
        str | None,
        typer.Argument(metavar="EXPECTED", help="Its text, or its options as YAML: 'at_most: 400'."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove this check of the case.")] = False,
) -> None:
    """Expect something of one case alone.

    It is judged by the evaluator next to those of the suite, in the place of the same one. A line of
    cases.jsonl that was edited by hand no longer fits its hash: this writes both. Exit code 2: there is no
    such case or evaluator, or it has no such option.
    """
    given = _options(expected or "{}")
    suite = suite_at(folder)
    checks: dict[str, Any] = {}

    def changed(found: Case) -> Case:
        checks.update({key: value for key, value in found.checks.items() if key != name})
        checks.update({} if remove else {name: given})
        return replace(found, checks=checks)

    with suite_errors():
        if not remove:
            evaluator({**given, "name": name}, f"case {case}: checks")
        if not change_case(suite.cases, case.strip().lower(), changed):
            raise NotACase(case, "the suite has no such case, or it is damaged")
    printing.note(f"case {case}: its own checks: {', '.join(sorted(checks)) or 'none'}")


def _options(text: str) -> dict[str, Any]:
    """A text that is no mapping is the option `text`. Raises SetupError."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SetupError(f"EXPECTED: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        return {"text": text}
    if not all(isinstance(key, str) for key in found):
        raise SetupError("EXPECTED: the names of options are texts, as in 'texts: [ORD-1001, Munich]'")
    return found
