"""Requests of an admin client that the controller answers, whoever it is, in both modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.clusters.ask.requests import send
from kchaos.clusters.errors import AwaitTimeout, MetadataRefused, MetadataUnavailable
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.waiting import await_until

ANSWER_S = 10.0
"""Seconds that a controller may take for an answer."""
ANSWER_MS = int(ANSWER_S * 500)
"""Milliseconds after which it answers in any case. ELECT_LEADERS may be answered only then, though
the leader is elected (`ReplicaManager.hasDelayedElectionOperations`)."""
_OFFICE_S = 30.0
"""So long a newly elected controller may take to begin, in seconds."""
_PREFERRED, _UNCLEAN = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRequests:
    """Requests to the controller; `controller` returns its id, `address_of` has that one's address.

    Every call raises MetadataRefused for an answer with an error, and MetadataUnavailable where no
    controller answers.
    """

    controller: Callable[[], int | None]
    address_of: Callable[[int], str]

    def reassign(self, topic: str, partition: int, replicas: Sequence[int] | None) -> None:
        """Send AlterPartitionReassignments (KIP-455, 2.4.0); None cancels a reassignment."""
        wanted = {"partition": partition, "replicas": None if replicas is None else list(replicas)}
        request = {"timeout_ms": ANSWER_MS, "topics": [{"topic": topic, "partitions": [wanted]}]}
        answer = self.send(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, version=0)
        what = f"the reassignment of {topic}-{partition} is not {'taken' if replicas else 'ended'}"
        refuse(answer, what)
        refuse(answer["topics"][0]["partitions"][0], what)

    def elect(
        self, topic: str, partition: int, *, is_unclean: bool = False, version: int = 1
    ) -> None:
        """Send ElectLeaders (KIP-460, 2.4.0); it is answered when the election is done.

        Version 0 (KIP-183, 2.2.0) elects preferred leaders, and has no error of its own. An
        election that is not needed counts as done.
        """
        request = {
            "election_type": _UNCLEAN if is_unclean else _PREFERRED,
            "topics": [{"topic": topic, "partitions": [partition]}],
            "timeout_ms": ANSWER_MS,
        }
        answer = self.send(ApiKey.ELECT_LEADERS, request, version=version)
        kind = "a leader" if is_unclean else "the preferred replica"
        what = f"{kind} of {topic}-{partition} is not elected"
        refuse(answer, what)
        for elected in answer["topics"]:
            for result in elected["partitions"]:
                if result["error_code"] != ErrorCode.ELECTION_NOT_NEEDED:
                    refuse(result, what)

    def send(self, api: ApiKey, values: Mapping[str, Any], *, version: int) -> dict[str, Any]:
        """Return the controller's answer to a request of a client's."""

        def ask(address: str) -> dict[str, Any]:
            return send(address, api, values, version=version, timeout_s=ANSWER_S)

        return self.answer_of_leader(ask)

    def answer_of_leader(self, ask: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        """Return what the controller answers.

        One that is about to take office is asked again, and so is whoever comes after one that is
        dead, since nothing was sent to it.
        """
        answers: list[dict[str, Any]] = []
        unsent = ""

        def answered() -> bool:
            nonlocal unsent
            leader, unsent = self.controller(), ""
            if leader is None:
                return False
            try:
                answer = ask(self.address_of(leader))
            except NotSent as error:
                unsent = f", and nothing could be sent to it: {error}"
                return False
            except NoAnswer as error:
                raise MetadataUnavailable(f"controller {leader} gave no answer: {error}") from error
            answers.append(answer)
            return ErrorCode.NOT_CONTROLLER not in _error_codes(answer)

        try:
            await_until(
                answered,
                timeout_s=_OFFICE_S,
                waiting_for="a controller that is in office",
                last_seen=lambda: f"{self.controller()} is the controller{unsent}",
                remedy="see the logs of brokers, or of most of the KRaft controllers",
            )
        except AwaitTimeout as error:
            raise MetadataUnavailable(str(error)) from error
        return answers[-1]


def refuse(answer: Mapping[str, Any], what: str) -> None:
    """Raise MetadataRefused for an answer with an error."""
    if answer.get("error_code"):
        said = answer.get("error_message") or "no reason is given"
        raise MetadataRefused(f"{what}: error {answer['error_code']}, {said}")


def _error_codes(answer: Any) -> set[int]:
    """Return every error code in an answer, however deep it is."""
    if isinstance(answer, Mapping):
        inner = [_error_codes(value) for name, value in answer.items() if name != "error_code"]
        return set().union({answer.get("error_code", 0)}, *inner)
    if isinstance(answer, list | tuple):
        return set().union(*map(_error_codes, answer))
    return set()
