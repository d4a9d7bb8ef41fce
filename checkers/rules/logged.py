"""What brokers' own logs say of errors: notes of the run, with their places."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding

_ERROR = re.compile(r"\[[^]]*\] (ERROR|FATAL) (.*)")
# A stack trace begins with the exception's class, and says nothing of the level before it.
_UNCAUGHT = re.compile(r"Exception in thread|\[[^]]*\] \w+ .*\b[Uu](ncaught|nhandled) exception")
_EXCEPTION = re.compile(r"(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Throwable)\b")
_ENDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # Up to 2.2 a failure ends the thread, from 2.3 on (KIP-461) it ends the partition's fetches.
    ("a fetcher thread", re.compile(r"ReplicaFetcher.*\bError due to\b")),
    ("the fetches of a partition", re.compile(r"artition \S+ marked as failed")),
    ("a request handler", re.compile(r"kafka-request-handler.*(Exiting|[Uu]ncaught)")),
    (
        "a controller's thread",
        re.compile(r"[Cc]ontroller(-event-thread|EventThread).*Error due to"),
    ),
    ("a thread to the controller", re.compile(r"BrokerToController.*(Error due to|[Uu]nhandled)")),
)
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logged:
    place: str
    text: str
    exception: str
    ends: str


def logged_errors(evidence: RunEvidence) -> Iterator[Finding]:
    """Yields a note for each broker whose log has errors, and one for each thread that one ended.

    Whether replication went on after that is asked when the run settles (`replication-stopped`).

    **Verifies**: each line of each server.log of level ERROR or FATAL, or of an exception that
    nobody caught.
    **Does not verify**: that an error was to be expected of what was done to the cluster; other
    levels, though up to 2.2 a partition that is given up is told as a warning by some releases.
    """
    for broker, lines in evidence.server_logs.items():
        errors = list(_errors(broker, lines))
        if not errors:
            continue
        kinds: dict[str, _Logged] = {}
        for one in errors:
            kinds.setdefault(re.sub(r"\d+", "N", one.text)[:120], one)
        first = errors[0]
        yield Finding(
            kind="broker-error",
            brokers=(broker,),
            message=f"broker {broker} logged {len(errors)} errors of {len(kinds)} kinds, first at "
            f"{first.place}: {first.text[:160]}",
            evidence={
                "errors": len(errors),
                "kinds": [_shown(one) for one in list(kinds.values())[:_MOST_SHOWN]],
            },
        )
        for one in errors:
            if one.ends:
                yield Finding(
                    kind="thread-ended",
                    brokers=(broker,),
                    message=f"an error ended {one.ends} of broker {broker}, at {one.place}: "
                    f"{one.text[:160]}",
                    evidence=_shown(one),
                )


def _errors(broker: int, lines: Sequence[str]) -> Iterator[_Logged]:
    for number, line in enumerate(lines, start=1):
        ends = next((name for name, pattern in _ENDS if pattern.search(line)), "")
        found = _ERROR.match(line)
        if found is None and not ends and not _UNCAUGHT.match(line):
            continue
        after = lines[number] if number < len(lines) else ""
        exception = _EXCEPTION.match(after)
        yield _Logged(
            place=f"brokers/{broker}/server.log:{number}",
            text=line if found is None else found[2],
            exception=exception[0] if exception else "",
            ends=ends,
        )


def _shown(one: _Logged) -> dict[str, Any]:
    return {"place": one.place, "text": one.text[:300], "exception": one.exception}
