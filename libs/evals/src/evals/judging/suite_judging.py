"""A suite's results judged: from `results.jsonl` and the cases to a line of judgements for each."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from evals.case_file import read_cases
from evals.cases import Case
from evals.errors import UnfitSuite
from evals.judging.evaluator_registry import evaluators_of
from evals.judging.judged_cases import JudgedCase
from evals.judging.judgement import Done, Judging, is_model
from evals.judging.model_judges import Ask
from evals.judging.recorded_profile import RecordedReply, profile_of
from evals.results import CaseOutcome, CaseResult
from evals.suite import Suite, reading, replacing

_result_decoder = msgspec.json.Decoder(CaseResult)
_judged_decoder = msgspec.json.Decoder(JudgedCase)


def judged_file(results: Path) -> Path:
    """Where the judgements of a file of results are: `results.judged.jsonl`."""
    return results.with_name(f"{results.stem}.judged.jsonl")


async def judge_results(suite: Suite, results: Path, ask: Ask | None = None) -> Path:
    """Writes the judgements next to the results, all of them or nothing; a batch is in memory.

    Raises UnfitSuite where the suite, a case's check or a file is not what it should be.
    """
    evaluators = evaluators_of(suite.settings.evaluators)
    found = ResultFile(results)
    profile = profile_of(_recorded(found.done(suite)))
    judging = Judging(
        evaluators,
        profile,
        ask,
        compare_recorded=suite.settings.baseline is None,
        at_once=suite.settings.concurrency,
    )
    output = judged_file(results)
    with replacing(output) as file:
        async for each in judging.judge(found.done(suite)):
            file.write(msgspec.json.encode(each) + b"\n")
    return output


def asks_model(suite: Suite) -> bool:
    """Whether the suite's evaluators do; a case's own checks may too. Raises UnfitSuite."""
    return any(map(is_model, evaluators_of(suite.settings.evaluators)))


def read_judged(path: Path) -> list[JudgedCase]:
    """Raises UnfitSuite where the file cannot be read."""
    try:
        with reading(path) as file:
            return [_judged_decoder.decode(line) for line in file]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitSuite(path.name, f"holds something else than judgements: {error}") from None


class ResultFile:
    """`results.jsonl`, of which the places of the results are in memory. Raises UnfitSuite."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, list[int]] = defaultdict(list)
        with reading(path) as file:
            place = 0
            for line in file:
                self._places[_result(path, line).case_id].append(place)
                place += len(line)

    def done(self, suite: Suite) -> Iterator[Done]:
        """Each case of the suite with its results. One without any was not run; a line that was changed since
        is damaged, whatever came of it.
        """
        for each in read_cases(suite.cases):
            if isinstance(each, Case):
                yield each, self.of(each.id) or (_unknown(each.id, "not_run", "the results lack it"),)
            else:
                yield None, (_unknown(each.case_id or f"line {each.line}", "damaged", str(each)),)

    def of(self, case_id: str) -> tuple[CaseResult, ...]:
        with open(self._path, "rb") as file:
            found = []
            for place in self._places.get(case_id, ()):
                file.seek(place)
                found.append(_result(self._path, file.readline()))
            return tuple(found)


def _unknown(case_id: str, outcome: CaseOutcome, detail: str) -> CaseResult:
    return CaseResult(case_id=case_id, attempt=1, outcome=outcome, detail=detail)


def _result(path: Path, line: bytes) -> CaseResult:
    try:
        return _result_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnfitSuite(path.name, f"holds something else than results: {error}") from None


def _recorded(done: Iterator[Done]) -> Iterator[RecordedReply]:
    for case, results in done:
        compared = next((each.compared for each in results if each.compared is not None), None)
        if case is not None and compared is not None and compared.recorded_end == "completed":
            yield RecordedReply(case.id, case.slices, compared.before.content)
