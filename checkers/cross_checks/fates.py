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
    for message in messages:
        number = (message.connection, message.correlation_id)
        if message.direction == "request":
            asked.add(number)
        elif message.api != _FETCH and number not in asked:
            yield f"{message.read_at} answers a {message.api} that nobody sent"
        if message.fate == "held":
            held.add((*number, message.direction))
        elif message.fate == "released" and (*number, message.direction) not in held:
            yield f"{message.read_at} was released, and was not held before"


def _unexplained(evidence: RunEvidence, messages: tuple[LinkMessage, ...]) -> Iterator[str]:
    acts = [timed.event for timed in evidence.actions]
    cuts = [act for act in acts if isinstance(act, CutLink)]
    holds = [act for act in acts if isinstance(act, Hold)]
    forgeries = [act for act in acts if isinstance(act, ForgeAnswers)]
    for message in messages:
        ends = {message.source, message.target}
        if None in ends:
            continue
        if message.fate == "cut":
            is_told = any({cut.source, cut.target} == ends for cut in cuts)
        elif message.fate == "held":
            is_told = any(_holds(hold, message) for hold in holds)
        elif message.fate in (_FORGED, _REPLACED):
            is_told = any(_forges(forgery, message) for forgery in forgeries)
        else:
            continue
        if not is_told:
            yield f"{message.read_at} was {message.fate}, and no act says so"


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
    return message.fate == _REPLACED or all(entry.get("error_code") == code for entry in entries)


def _replaced_once(messages: tuple[LinkMessage, ...]) -> Iterator[str]:
    numbers = {
        fate: Counter(
            (message.connection, message.correlation_id)
            for message in messages
            if message.fate == fate
        )
        for fate in (_REPLACED, _FORGED)
    }
    for this, other in ((_REPLACED, _FORGED), (_FORGED, _REPLACED)):
        for connection, number in numbers[this] - numbers[other]:
            yield f"{LINKS}: answer {number} of connection {connection} was {this}, not {other}"
