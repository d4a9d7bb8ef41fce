"""Cross-check of messages that were kept or lost: links.jsonl beside the acts that did it."""

from collections import Counter
from collections.abc import Iterator

from kchaos.checkers.acts import FORGED_ERRORS, CutLink, ForgeAnswers, Hold
from kchaos.checkers.evidence.links import LINKS, LinkMessage
from kchaos.checkers.evidence.run import RunEvidence

_FETCH = "Fetch"
_FORGED, _REPLACED = "forged", "replaced"


def fate_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yields fates that no act explains, and answers that nobody asked for.

    **Verifies**: that a message was cut, held or forged only after an act that does so between its
    two brokers, and has the error that the act says; that what was released was held before, and
    what was forged replaced another answer, one for one; that each answer follows its question,
    but for Fetch.
    **Does not verify**: that the act still lasted then; answers to a Fetch, since links leave out
    Fetches that ask for nothing new.
    """
    messages = evidence.links or ()
    yield from _unexplained(evidence, messages)
    yield from _replaced_once(messages)
    asked: set[tuple[int, int]] = set()
    held: set[tuple[int, int, str]] = set()
    for one in messages:
        number = (one.connection, one.correlation_id)
        if one.direction == "request":
            asked.add(number)
        elif one.api != _FETCH and number not in asked:
            yield f"{one.read_at} answers a {one.api} that nobody sent"
        if one.fate == "held":
            held.add((*number, one.direction))
        elif one.fate == "released" and (*number, one.direction) not in held:
            yield f"{one.read_at} was released, and was not held before"


def _unexplained(evidence: RunEvidence, messages: tuple[LinkMessage, ...]) -> Iterator[str]:
    acts = [one.event for one in evidence.actions]
    cuts = [one for one in acts if isinstance(one, CutLink)]
    holds = [one for one in acts if isinstance(one, Hold)]
    forgeries = [one for one in acts if isinstance(one, ForgeAnswers)]
    for one in messages:
        ends = {one.source, one.target}
        if None in ends:
            continue
        if one.fate == "cut":
            is_told = any({cut.source, cut.target} == ends for cut in cuts)
        elif one.fate == "held":
            is_told = any(_holds(hold, one) for hold in holds)
        elif one.fate in (_FORGED, _REPLACED):
            is_told = any(_forges(forgery, one) for forgery in forgeries)
        else:
            continue
        if not is_told:
            yield f"{one.read_at} was {one.fate}, and no act says so"


def _holds(hold: Hold, message: LinkMessage) -> bool:
    return (
        hold.direction == message.direction
        and hold.api == message.api
        and hold.source in (None, message.source)
        and hold.target in (None, message.target)
    )


def _forges(forgery: ForgeAnswers, message: LinkMessage) -> bool:
    if (forgery.source, forgery.target) != (message.source, message.target):
        return False
    entries = (message.detail or {}).get("partitions") or ()
    code = FORGED_ERRORS.get(forgery.error)
    return message.fate == _REPLACED or all(one.get("error_code") == code for one in entries)


def _replaced_once(messages: tuple[LinkMessage, ...]) -> Iterator[str]:
    numbers = {
        fate: Counter((one.connection, one.correlation_id) for one in messages if one.fate == fate)
        for fate in (_REPLACED, _FORGED)
    }
    for this, other in ((_REPLACED, _FORGED), (_FORGED, _REPLACED)):
        for connection, number in numbers[this] - numbers[other]:
            yield f"{LINKS}: answer {number} of connection {connection} was {this}, not {other}"
