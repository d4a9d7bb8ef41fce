"""Cross-check of brokers: their releases and settings, beside what scenario and run.json say."""

import json
import re
from collections.abc import Iterator, Mapping

from kchaos.checkers.acts import STALE_CLIENT_ID, StaleRequest, StartBroker
from kchaos.checkers.cross_checks.acts import settings_in, settings_of
from kchaos.checkers.errors import CheckpointError, ModelError
from kchaos.checkers.evidence.about import RUN, SCENARIO, is_release
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.topic_settings import DELETING
from kchaos.checkers.formats.checkpoints import parse_properties
from kchaos.checkers.formats.kafka_jars import SERVER_JARS
from kchaos.checkers.model.releases.request_versions import asked_versions
from kchaos.checkers.model.releases.versions import line_of, parse_version
from kchaos.checkers.observations import Act, BrokerStarted

_VERSION = re.compile(r"INFO Kafka version ?: (\S+) \(")
_SERVER_JAR = re.compile(r"kafka_2\.\d+-(.+)\.jar")
_OF_CONTROLLER = "CONTROLLER://"


def broker_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield each broker that differs from what scenario.json and run.json say.

    **Verifies**: that the jars of each Kafka are listed, Kafka's own one with the name of the
    release, and with its digest where the release's is known; that a broker's log names no other
    release than those with which it was started; that requests at the links have the versions in
    which a broker of that protocol asks; that server.properties has what the scenario set, the
    settings of the last start, no other setting that lets records be deleted, and the addresses
    with which the broker registered, which its log names too; that these lead over links exactly
    if the run says so.
    **Does not verify**: which build of a release lies in a folder; in which versions brokers of a
    KRaft cluster ask, which follow from its metadata.version.
    """
    yield from _jars(evidence)
    if not (evidence.is_kraft or evidence.is_migration):
        yield from _versions_asked(evidence)
    registered = _registered(evidence)
    for broker in sorted(evidence.description.brokers):
        for name in ("server.properties", "server.log"):
            if not evidence.files.has(f"brokers/{broker}/{name}"):
                yield f"brokers/{broker}/{name} is missing"
        yield from _versions_logged(evidence, broker)
        try:
            yield from _properties(evidence, broker, registered.get(broker, set()))
        except CheckpointError as error:
            yield str(error)


def _starts(evidence: RunEvidence, broker: int) -> list[StartBroker]:
    events = (timed.event for timed in evidence.actions)
    return [event for event in events if isinstance(event, StartBroker) and event.broker == broker]


def _kafkas(evidence: RunEvidence) -> Mapping[int, str]:
    """Release or place of Kafka from which each broker was first started."""
    return {broker.id: broker.kafka for broker in evidence.scenario.cluster.brokers}


def _jars(evidence: RunEvidence) -> Iterator[str]:
    for broker, kafka in sorted(_kafkas(evidence).items()):
        ran = evidence.description.brokers.get(broker)
        jars = evidence.description.jars.get(kafka)
        if ran is None:
            continue
        # An image has its jars inside, and is named by its own digest.
        if jars is None and not evidence.description.images:
            yield f"{RUN} lists no jars of {kafka}, which broker {broker} ran"
        is_released = bool(jars) and is_release(kafka)
        if is_released:
            yield from _released(broker, ran.release, jars or {})
        if not (is_released and ran.release in SERVER_JARS) and not _logged(evidence, broker):
            yield f"only {RUN} says that broker {broker} was {ran.release}: no log of it is there"


def _released(broker: int, release: str, jars: Mapping[str, str]) -> Iterator[str]:
    """Yield a broker whose own jar does not have the release's name and digest."""
    own = {name: match[1] for name in jars if (match := _SERVER_JAR.fullmatch(name))}
    if set(own.values()) != {release}:
        yield f"broker {broker} is {release} in {RUN}, and its jars are {sorted(own)}"
    for name in own:
        if jars[name] != SERVER_JARS.get(release, jars[name]):
            yield f"{RUN}: {name} has another SHA-256 than Kafka {release} as it was published"


def _logged(evidence: RunEvidence, broker: int) -> set[str]:
    """Return the releases that a broker's log names."""
    lines = evidence.server_logs.get(broker, ())
    return {match[1] for line in lines if (match := _VERSION.search(line))}


def _versions_logged(evidence: RunEvidence, broker: int) -> Iterator[str]:
    logged = _logged(evidence, broker)
    known = {start.release for start in _starts(evidence, broker)}
    known |= {evidence.description.brokers[broker].release, *_rolled_to(evidence, broker)}
    # A build of one's own says more than the release from which it was made.
    if not all(any(line.startswith(release) for release in known) for line in logged):
        yield (
            f"brokers/{broker}/server.log is of Kafka {', '.join(sorted(logged))}, and the broker "
            f"was started as {', '.join(sorted(known))}"
        )
    elif not logged:
        yield f"brokers/{broker}/server.log does not say which Kafka it is of"


def _rolled_to(evidence: RunEvidence, broker: int) -> Iterator[str]:
    """Yield a later build of a broker that has another name than the one that it is judged as."""
    for _, started in lines_of(evidence.observed, BrokerStarted):
        if started.broker == broker:
            yield started.release


def _versions_asked(evidence: RunEvidence) -> Iterator[str]:
    lines: dict[int, set[tuple[int, ...]]] = {}
    for broker in evidence.description.brokers:
        for start in _starts(evidence, broker):
            try:
                line = line_of(parse_version(start.inter_broker_protocol or start.release))
            except ModelError:
                lines.pop(broker, None)
                break  # A protocol between two releases: which versions it has is not listed.
            lines.setdefault(broker, set()).add(line)
    # Made by kchaos, in the version that the act says; one that a link cut off is no action.
    late = {
        (STALE_CLIENT_ID, timed.event.api, timed.event.version)
        for timed in evidence.actions
        if isinstance(timed.event, StaleRequest)
    } | {
        (STALE_CLIENT_ID, begun.act.api, begun.act.version)
        for _, begun in lines_of(evidence.observed, Act)
        if isinstance(begun.act, StaleRequest)
    }
    for message in evidence.links or ():
        if message.direction != "request" or message.source not in lines or message.api is None:
            continue
        if (message.client_id, message.api, message.api_version) in late:
            continue
        known = [asked_versions(message.api, line) for line in sorted(lines[message.source])]
        if all(known) and message.api_version not in frozenset[int | None]().union(*known):
            yield (
                f"{message.read_at} is a {message.api} of version {message.api_version}, in which "
                f"broker {message.source} does not ask by its release or protocol"
            )


def _registered(evidence: RunEvidence) -> Mapping[int, set[str]]:
    """Return the addresses with which each broker registered, each list as text."""
    if evidence.is_kraft:
        return evidence.metadata_logs.endpoints
    addresses: dict[int, set[str]] = {}
    for change in evidence.znode_changes:
        broker = change.path.removeprefix("/brokers/ids/")
        if broker.isdecimal() and change.data:
            try:
                endpoints = json.loads(change.data)["endpoints"]
            except (KeyError, TypeError, ValueError):
                continue
            if isinstance(endpoints, list):
                addresses.setdefault(int(broker), set()).add(",".join(map(str, endpoints)))
    return addresses


def _properties(evidence: RunEvidence, broker: int, registered: set[str]) -> Iterator[str]:
    name = f"brokers/{broker}/server.properties"
    if not evidence.files.has(name):
        return
    text = evidence.files.content(name).decode("utf-8", "backslashreplace")
    has = parse_properties(text, file=name)
    wanted, rolled = _wanted(evidence, broker), _rolled(evidence, broker)
    for setting, value in sorted(wanted.items()):
        is_left_out = setting.startswith("zookeeper.") and "process.roles" in has
        if has.get(setting) != value and setting not in rolled and not is_left_out:
            yield f"{name} has {setting}={has.get(setting)}; {SCENARIO} gave it {value}"
    deleting = {setting for setting in has if setting.removeprefix("log.") in DELETING}
    for setting in sorted(deleting - wanted.keys() - rolled):
        if not evidence.is_tiered:
            yield f"{name} has {setting}={has[setting]}, which {SCENARIO} did not set"
    starts = _starts(evidence, broker)
    if starts and settings_of(starts[-1]) != settings_in(has):
        yield f"{name} has other settings than the last start of broker {broker}"
    told = has.get("advertised.listeners", "")
    if registered and _sorted(told) not in map(_sorted, registered):
        yield f"{name} has the addresses {told}; broker {broker} registered {sorted(registered)}"
    lines = evidence.server_logs.get(broker, ())
    # From 4.4 on lists are logged with a blank behind each comma.
    addresses = told.split(",")
    if lines and not any(all(address in line for address in addresses) for line in lines):
        yield f"brokers/{broker}/server.log does not name {told}: it is of another run"
    is_linked = _port(told) != _port(has.get("listeners", ""))
    if is_linked is not evidence.is_linked:
        by = "over a link" if is_linked else "directly"
        yield f"by {name} others reach broker {broker} {by}, and {SCENARIO} or {RUN} says otherwise"

    listens = has.get("listeners", "")
    if evidence.clients is not None and _port(told, "CLIENT") == _port(listens, "CLIENT") != "":
        yield f"by {name} clients reach broker {broker} directly, and {SCENARIO} says over a link"


def _sorted(addresses: str) -> list[str]:
    """Return a broker's addresses in one order; KRaft's controllers keep an order of their own.

    A combined node tells where it listens as a controller as well, and registers without that.
    """
    return sorted(each for each in addresses.split(",") if not each.startswith(_OF_CONTROLLER))


def _wanted(evidence: RunEvidence, broker: int) -> Mapping[str, str]:
    """Return the properties that scenario.json sets for a broker."""
    cluster = evidence.scenario.cluster
    own = (cluster.properties_of(spec) for spec in cluster.brokers if spec.id == broker)
    return next(own, {})


def _rolled(evidence: RunEvidence, broker: int) -> frozenset[str]:
    """Return the properties that a later start of the broker may have changed."""
    faults = [(step.get("do") or step).get("fault") for step in evidence.scenario.steps]
    return frozenset(
        str(name)
        for fault in faults
        if isinstance(fault, dict) and fault.get("broker") == broker
        for name, _ in fault.get("properties") or ()
    )


def _port(listeners: str, name: str = "INTERNAL") -> str:
    """Return the port of a listener, by default that for brokers; "" without the listener."""
    inner = next(
        (listener for listener in listeners.split(",") if listener.startswith(f"{name}://")), ""
    )
    return inner.rpartition(":")[2]
