"""Real brokers' messages, and how the tests read one."""

import json
import uuid
from pathlib import Path

from kchaos.clusters.links.details import TopicNames
from kchaos.clusters.links.messages import read_request, read_response
from kchaos.clusters.links.sessions import FetchSessions

# Written to the wire by brokers of these releases (and 3.9.1 with older inter-broker protocols):
# controller 2, topic t with partition 0 on brokers 0 and 1.
CAPTURED = json.loads((Path(__file__).parent / "captured_frames.json").read_text())
TOPIC_ID = uuid.UUID(int=0x1234)


def captured(api, direction, version=None):
    return [
        entry
        for entry in CAPTURED
        if entry["api"] == api
        and entry["direction"] == direction
        and version in (None, entry["version"])
    ]


def name_of(entry):
    return f"v{entry['version']}-{entry['captured_from']}"


def read(data, *, target=0, topics=None, sessions=None, size=None, source=None):
    return read_request(
        memoryview(data),
        size=len(data) if size is None else size,
        target=target,
        connection_source=source,
        topics=topics or TopicNames(),
        sessions=sessions or FetchSessions(),
    )


def read_entry(entry):
    return read(bytes.fromhex(entry["hex"]))


def answer_to(request, data, topics=None):
    return read_response(
        memoryview(data),
        size=len(data),
        request=request,
        topics=topics or TopicNames(),
        sessions=FetchSessions(),
    )
