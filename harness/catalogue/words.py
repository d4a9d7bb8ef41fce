"""Steps and witnesses that many entries have, in fewer words."""

from typing import Any

import kchaos as k


def held(name: str, api: str, **more: Any) -> k.Inject:
    """Return the step that holds a kind of request, or with a `direction` its answers.

    Args:
        name: Of the step and of the fault, by which it is healed.
        api: Kafka's spelling of the request.
        more: Other fields of `HoldRequests`.
    """
    return k.Inject(name=name, fault=k.HoldRequests(name=name, api=api, **more))


def held_from(name: str, follower: int, leader: int, offset: int, **more: Any) -> k.Inject:
    """Return the step that holds fetches of t-0 from an offset on; see `held`."""
    of: dict[str, Any] = {"topic": "t", "partition": 0, "fetch_offset_at_least": offset}
    return held(name, "Fetch", source=follower, target=leader, **of, **more)


def at_link(
    api: str, direction: str, source: int | None = None, target: int | None = None, **fields: Any
) -> dict[str, Any]:
    """Return the witness that a message was seen at a link, a "request" or a "response".

    `source` and `target` are of the request, None for any. `fields` are those of its line in
    links.jsonl.
    """
    between = {"source": source, "target": target}
    known = {name: broker for name, broker in between.items() if broker is not None}
    return {"link": {"api": api, "direction": direction, **known, **fields}}
