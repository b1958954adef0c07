"""The evaluators of an agent's live runs, of its configuration (`directory.live_judging`)."""

from directory.live_judging import LiveJudging
from evals.errors import UnfitSuite
from evals.judging.evaluator_registry import evaluators_of
from evals.judging.model_judges import ModelJudge
from evals.judging.recorded_profile import OfProfile
from evals.judging.run_evaluator import RunEvaluator
from evals.suite import SETTINGS


class UnfitEvaluator(Exception):  # noqa: N818 - a state of the configuration
    """`field` is its place below `judging`, such as `evaluators[0]`, where it is one."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def live_evaluators(judging: LiveJudging) -> list[RunEvaluator]:
    """One for each. Raises UnfitEvaluator where one is unknown, or needs what a live run has not."""
    try:
        made = evaluators_of(judging.evaluators)
    except UnfitSuite as error:
        field, _, reason = str(error).removeprefix(f"{SETTINGS}: ").partition(": ")
        raise UnfitEvaluator(field, reason) from None
    for place, each in enumerate(made):
        if each.compares or isinstance(each, OfProfile):
            reason = f"{each.name} compares with a recorded run, and a live run has none"
            raise UnfitEvaluator(f"evaluators[{place}]", f"{reason}{_instead(each)}")
        if each.needs_prices:
            raise UnfitEvaluator(f"evaluators[{place}]", f"{each.name} needs prices, which a service has not")
        if isinstance(each, ModelJudge) and not judging.tokens_per_day:
            raise UnfitEvaluator("tokens_per_day", f"is needed: {each.name} asks a model, which costs")
    return made


def _instead(evaluator: RunEvaluator) -> str:
    """What makes it judge by itself."""
    option = evaluator.alone
    return f"; give it `{option}`" if option else ""
