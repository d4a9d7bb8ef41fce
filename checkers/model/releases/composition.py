"""Composition of a broker's rules, by release, inter-broker protocol and message format.

A `Generation` is what one broker does. It starts as 0.10.2 (`rules.first_release`) and is changed
by one `Rule` after the other (`checkers.model.releases.every_rule`). What only a document proposes
wraps what comes of that. In a mixed cluster each broker has its own: a leader answers by the
leader's generation, a follower asks and truncates by its own.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from functools import cache

from kchaos.checkers.acts import Mode, StartBroker
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases.asked import who_watches
from kchaos.checkers.model.releases.every_rule import RULES
from kchaos.checkers.model.releases.generation import Generation, Versions
from kchaos.checkers.model.releases.rules.first_release import first_generation
from kchaos.checkers.model.releases.versions import ANY_IV, parse_protocol, parse_version


def generation_for(
    release: str,
    *,
    inter_broker_protocol: str | None = None,
    message_format: str | None = None,
    mode: Mode = "zookeeper",
    without: Collection[str] = (),
    also: Collection[str] = (),
) -> Generation:
    """Return what a broker of that release does under that protocol and message format.

    Args:
        release: Such as "1.1.1".
        inter_broker_protocol: Such as "1.1" or "2.7-IV1"; the release's own when None. With KRaft
            the metadata version stands in its place.
        message_format: Such as "0.10.2"; the release's own when None.
        mode: Where the cluster keeps its metadata.
        without: Names of rules to leave out.
        also: Names of rules to follow although the versions do not ask for them.

    Raises:
        ModelError: A version that cannot be read, or a rule that does not exist.
    """
    names = frozenset(without), frozenset(also)
    composed = _composed(release, inter_broker_protocol, message_format, mode, *names)
    asked = who_watches()
    return composed if asked is None else asked.watched(composed, owners_of(composed))


def generation_of(broker: StartBroker, *, message_format: str | None = None) -> Generation:
    """Return what a broker does that was started so, for a topic with that format if it has one.

    Raises:
        ModelError: A version that cannot be read.
    """
    return generation_for(
        broker.release,
        inter_broker_protocol=broker.inter_broker_protocol,
        message_format=message_format or broker.message_format,
        mode=broker.mode,
    )


@cache
def owners_of(composed: Generation) -> Mapping[str, str]:
    """Return by decision point the rule that says what a generation does there.

    What the first release did is no rule's.
    """
    owners: dict[str, str] = {}
    generation = first_generation(composed.name, composed.versions)
    for rule in RULES:
        if rule.name in composed.rules and rule.change is not None:
            changed = rule.change(generation)
            owners |= {
                field.name: rule.name
                for field in fields(Generation)
                if getattr(changed, field.name) != getattr(generation, field.name)
            }
            generation = replace(changed, rules=(*generation.rules, rule.name))
    return owners


def asks_controller_for_isr(broker: StartBroker) -> bool | None:
    """Return whether a broker changes an ISR through the controller alone (KIP-497).

    None if its versions cannot be read; the model says what is wrong with them.
    """
    try:
        return generation_of(broker).asks_controller_for_isr
    except ModelError:
        return None


@cache
def _composed(
    release: str,
    inter_broker_protocol: str | None,
    message_format: str | None,
    mode: Mode,
    without: frozenset[str],
    also: frozenset[str],
) -> Generation:
    """Return one object for equal arguments, since states compare generations."""
    unknown = {*without, *also} - {rule.name for rule in RULES}
    if unknown:
        raise ModelError(
            f"no rule is named {', '.join(sorted(unknown))}; "
            f"known: {', '.join(rule.name for rule in RULES)}"
        )
    versions = versions_of(release, inter_broker_protocol, message_format, mode)
    name = _name(release, inter_broker_protocol, message_format, mode, without, also)
    generation, followed = first_generation(name, versions), list[str]()
    for rule in RULES:
        is_followed = rule.applies(versions) and rule.name not in without
        if rule.change is not None and (is_followed or rule.name in also):
            generation = rule.change(generation)
            followed.append(rule.name)
    return replace(generation, rules=tuple(followed))


def versions_of(
    release: str,
    inter_broker_protocol: str | None = None,
    message_format: str | None = None,
    mode: Mode = "zookeeper",
) -> Versions:
    """Return the versions as numbers; from protocol 3.0-IV1 on the message format is ignored.

    That is KIP-724 (kafka.log.LogConfig.shouldIgnoreMessageFormatVersion, 3.0.2 and 3.8.0).

    Raises:
        ModelError: A version that cannot be read.
    """
    binary = parse_version(release)
    own = (*binary[:3], ANY_IV) if binary[0] == 0 else (binary[0], binary[1], 0, ANY_IV)
    protocol = parse_protocol(inter_broker_protocol) if inter_broker_protocol else own
    written = parse_protocol(message_format) if message_format else own
    if protocol >= (3, 0, 0, 1):
        written = protocol
    magic = 2 if written >= (0, 11, 0, 0) else 1 if written >= (0, 10, 0, 0) else 0
    return Versions(release=binary, inter_broker_protocol=protocol, magic=magic, mode=mode)


def _name(
    release: str,
    inter_broker_protocol: str | None,
    message_format: str | None,
    mode: Mode,
    without: Collection[str],
    also: Collection[str],
) -> str:
    parts = [release, *(["kraft"] if mode == "kraft" else [])]
    if inter_broker_protocol:
        parts.append(f"protocol {inter_broker_protocol}")
    if message_format:
        parts.append(f"format {message_format}")
    parts += [f"without {name}" for name in sorted(without)]
    parts += [f"with {name}" for name in sorted(also)]
    return " ".join(parts)
