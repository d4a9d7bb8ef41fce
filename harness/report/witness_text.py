"""Witnesses as sentences: what had to be in the evidence."""

from collections.abc import Mapping
from typing import Any


def witness_text(wanted: Mapping[str, Any]) -> str:
    """Describe a witness; `checkers.witness` lists the forms."""
    ((form, fields),) = wanted.items()
    sentence = _SENTENCES.get(form, _others)(fields)
    return sentence[:1].upper() + sentence[1:]


def _broker(fields: Mapping[str, Any], name: str, other: str = "a broker") -> str:
    return f"broker {fields[name]}" if name in fields else other


def _rest(fields: Mapping[str, Any], *sentence: str) -> str:
    left = {name: value for name, value in fields.items() if name not in sentence}
    return "".join(f", {name.replace('_', ' ')} {_value(value)}" for name, value in left.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "with " + " and ".join(
            f"{name.replace('_', ' ')} {_value(inner)}" for name, inner in value.items()
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value)) or "nothing"
    return "none" if value is None or value == "" else str(value)


def _round(fields: Mapping[str, Any]) -> str:
    asks = f"{_broker(fields, 'follower')} asks {_broker(fields, 'leader', 'its leader')}"
    epoch = fields.get("requested_epoch")
    ends = "its leader epoch" if epoch is None else f"leader epoch {epoch}"
    answer = f", and the answer is {fields['end_offset']}" if "end_offset" in fields else ""
    rest = _rest(fields, "follower", "leader", "requested_epoch", "end_offset")
    return f"{asks} where {ends} ends{answer}{rest}"


def _log(fields: Mapping[str, Any]) -> str:
    return f"the log of {_broker(fields, 'broker')} has a line that matches {fields['pattern']}"


def _link(fields: Mapping[str, Any]) -> str:
    # A link has the source and the target of the request; its answer goes back.
    api = fields.get("api", "")
    asked = f"an {api} request" if api[:1] in ("A", "E", "I", "O", "U") else f"a {api} request"
    asked += f" of {_broker(fields, 'source')}" if "source" in fields else ""
    target = _broker(fields, "target", "")
    sentence = f"{asked} to {target}" if target else asked
    if fields.get("direction") == "response":
        sentence = f"{target}'s answer to {asked}" if target else f"the answer to {asked}"
    fate = f", {fields['fate']} by kchaos" if fields.get("fate") else ""
    return f"{sentence}{fate}{_rest(fields, 'direction', 'source', 'target', 'api', 'fate')}"


def _hit(fields: Mapping[str, Any]) -> str:
    fate = f" and was {fields['fate']}" if "fate" in fields else ""
    point = fields.get("point", "a point")
    rest = _rest(fields, "broker", "point", "fate")
    return f"a thread of {_broker(fields, 'broker')} came to {point}{fate}{rest}"


def _operation(fields: Mapping[str, Any]) -> str:
    name = fields.get("operation", "")
    rest = _rest(fields, "function", "operation")
    return f"the client's {fields.get('function', 'operation')} {name}".rstrip() + rest


def _observed(fields: Mapping[str, Any]) -> str:
    return f"observed: {fields['kind']}{_rest(fields, 'kind')}"


def _epochs(fields: Mapping[str, Any]) -> str:
    return (
        f"the leader epochs of {fields['partition']} on {_broker(fields, 'broker')} begin at "
        f"{_value(fields['starts'])} in snapshot {fields['snapshot']}"
    )


def _magics(fields: Mapping[str, Any]) -> str:
    return (
        f"the batches of {fields['partition']} on {_broker(fields, 'broker')} have message formats "
        f"{_value(fields['runs'])} in snapshot {fields['snapshot']}"
    )


def _table(fields: Mapping[str, Any]) -> str:
    columns = ", ".join(fields["columns"])
    return (
        f"in snapshot {fields['snapshot']} the table of {fields['partition']} is as the scenario "
        f"states it ({columns})"
    )


def _others(fields: Mapping[str, Any]) -> str:
    return _rest(fields).removeprefix(", ")


_SENTENCES = {
    "round": _round,
    "log": _log,
    "link": _link,
    "hit": _hit,
    "operation": _operation,
    "observed": _observed,
    "epochs": _epochs,
    "magics": _magics,
    "table": _table,
}
