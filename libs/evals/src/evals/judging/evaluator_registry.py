"""From `suite.yaml` to evaluators: `{name: contains, text: "…"}`. What is not known is refused by name."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from evals.errors import UnfitSuite
from evals.judging import figure_evaluators, model_judges, recorded_profile, text_evaluators, tool_evaluators
from evals.judging.run_evaluator import RunEvaluator, option_names
from evals.suite import SETTINGS

_MODULES = (text_evaluators, tool_evaluators, figure_evaluators, recorded_profile, model_judges)
KINDS: Mapping[str, type[RunEvaluator]] = {kind.name: kind for each in _MODULES for kind in each.KINDS}
DEFAULTS: tuple[Mapping[str, Any], ...] = tuple(
    {"name": name} for name in ("tool_calls", "language", "phrases", "facts", "overlap", "sources")
)
"""Where a suite names none. That a run completes is always judged."""
COMPLETED = "completed"
CHECK = "check: "
"""Begins the labels of evaluators that one case alone has."""


def evaluators_of(settings: Sequence[Mapping[str, Any]]) -> list[RunEvaluator]:
    """One for each, or the default ones. Raises UnfitSuite where one is unknown or two have one label."""
    made = [evaluator(each, f"evaluators[{place}]") for place, each in enumerate(settings or DEFAULTS)]
    names = Counter(each.evaluation_name for each in made)
    if repeated := [name for name, number in names.items() if number > 1]:
        raise UnfitSuite(
            SETTINGS, f"evaluators: {names[repeated[0]]} are called {repeated[0]!r}; give each a label"
        )
    return made


def evaluator(settings: Mapping[str, Any], place: str) -> RunEvaluator:
    """One, of a mapping with its name and its options. Raises UnfitSuite, with the place of what is wrong."""
    name = settings.get("name")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise UnfitSuite(
            SETTINGS, f"{place}: no evaluator is called {name!r}; there are {', '.join(sorted(KINDS))}"
        )
    options = {option: value for option, value in settings.items() if option != "name"}
    known = option_names(kind)
    if unknown := sorted(str(each) for each in options if each not in known):
        raise UnfitSuite(SETTINGS, f"{place}: {name} has no option {unknown[0]!r}; it has {', '.join(known)}")
    try:
        made = msgspec.convert(options, kind)
    except msgspec.ValidationError as error:
        raise UnfitSuite(SETTINGS, f"{place}: {name}: {error}") from None
    if made.label == COMPLETED:
        raise UnfitSuite(
            SETTINGS, f"{place}: no evaluator can be called {COMPLETED!r}, which is always judged"
        )
    return made
