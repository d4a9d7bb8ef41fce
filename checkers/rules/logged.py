"""Errors in brokers' own logs, with their places: those that end replication, and the rest."""

import re
import textwrap
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.partition_names import topic_partition

_ERROR = re.compile(r"\[[^]]*\] (ERROR|FATAL) (.*)")
# A stack trace begins with the exception's class, and says nothing of the level before it.
_UNCAUGHT = re.compile(r"Exception in thread|\[[^]]*\] \w+ .*\b[Uu](ncaught|nhandled) exception")
_EXCEPTION = re.compile(r"(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error|Throwable)\b")
_FETCHER_ENDS = re.compile(r"\[ReplicaFetcher.*\bError due to\b")
# Up to 2.2 an error ends the thread; from 2.3 on (KIP-461) most end the fetches of one partition.
_FETCHES_END = re.compile(
    r"\[ReplicaFetcher.*\b(?:Failed to truncate|Unexpected error occurred during truncation for"
    r"|(?:Error|Unexpected error occurred) while processing data for partition) (?P<partition>\S+)"
)
_ENDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a request handler", re.compile(r"kafka-request-handler.*(Exiting|[Uu]ncaught)")),
    (
        "a controller's thread",
        re.compile(r"[Cc]ontroller(-event-thread|EventThread).*Error due to"),
    ),
    ("a thread to the controller", re.compile(r"BrokerToController.*(Error due to|[Uu]nhandled)")),
)
_LOGGER = re.compile(r" \((?:[a-z]\w*\.)+[A-Z]\w*\)$")
_MOST_SHOWN = 5
_MOST_TOLD = 160
"""Characters of a line that a message tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logged:
    place: str
    text: str
    exception: str
    thrown: str
    ends: str
    replicates: bool
    partition: TopicPartition | None = None


def logged_errors(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield a note for each broker with errors in its log, or with ended threads.

    An error that ends a fetcher thread, or its fetches of a partition, is `fetcher-ended`, once for
    each broker and partition: a later leader epoch may have repaired that, and until then nothing
    was replicated. Where settling says why that partition is not at rest, it says this too; then it
    is a note, `thread-ended`, as for other threads.

    **Verifies**: each line of each server.log of level ERROR or FATAL, or of an exception that
    nobody caught.
    **Does not verify**: that an error was to be expected of what was done to the cluster; other
    levels: a partition that is "marked as failed" because its leader is in a newer leader epoch
    logs no error, and waits for its LeaderAndIsr.
    """
    for broker, lines in evidence.server_logs.items():
        errors = list(_errors(broker, lines))
        if not errors:
            continue
        kinds: dict[str, _Logged] = {}
        for logged in errors:
            kinds.setdefault(re.sub(r"\d+", "N", logged.text)[:120], logged)
        first = errors[0]
        yield Finding(
            kind="broker-error",
            brokers=(broker,),
            message=f"broker {broker} logged {_count(errors, 'error')} of {_count(kinds, 'kind')}, "
            f"first at {first.place}: {_told(first.text)}",
            evidence={
                "errors": len(errors),
                "kinds": [_shown(logged) for logged in list(kinds.values())[:_MOST_SHOWN]],
            },
        )
        told = set[TopicPartition | None]()
        for logged in errors:
            is_found = logged.replicates and not evidence.outcome.gives_reason(
                broker, logged.partition
            )
            if not logged.ends or (is_found and logged.partition in told):
                continue
            if is_found:
                told.add(logged.partition)
            yield Finding(
                kind="fetcher-ended" if is_found else "thread-ended",
                topic=logged.partition.topic if logged.partition else "",
                partition=logged.partition.partition if logged.partition else -1,
                brokers=(broker,),
                message=f"an error ended {logged.ends} of broker {broker}, at {logged.place}: "
                f"{_told(logged.text)}{f': {_told(logged.thrown)}' if logged.thrown else ''}",
                evidence=_shown(logged),
            )


def _count(counted: Sized, what: str) -> str:
    return f"{len(counted)} {what}{'s' if len(counted) != 1 else ''}"


def _errors(broker: int, lines: Sequence[str]) -> Iterator[_Logged]:
    for number, line in enumerate(lines, start=1):
        error = _ERROR.match(line)
        ends = next((name for name, pattern in _ENDS if pattern.search(line)), "")
        partition = None
        is_thread = error is not None and _FETCHER_ENDS.search(line) is not None
        fetches = _FETCHES_END.search(line) if error is not None else None
        if is_thread:
            ends = "a fetcher thread"
        elif fetches is not None:
            ends = f"the fetches of {fetches['partition']}"
            name = topic_partition(fetches["partition"])
            partition = TopicPartition(*name) if name is not None else None
        elif error is None and not ends and not _UNCAUGHT.match(line):
            continue
        after = lines[number] if number < len(lines) else ""
        exception = _EXCEPTION.match(after)
        yield _Logged(
            place=f"brokers/{broker}/server.log:{number}",
            text=line if error is None else error[2],
            exception=exception[0] if exception else "",
            thrown=after if exception else "",
            ends=ends,
            replicates=is_thread or fetches is not None,
            partition=partition,
        )


def _told(line: str) -> str:
    return textwrap.shorten(_LOGGER.sub("", line), _MOST_TOLD, placeholder=" …")


def _shown(logged: _Logged) -> dict[str, Any]:
    return {"place": logged.place, "text": logged.text[:300], "exception": logged.exception}
