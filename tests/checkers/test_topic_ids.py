"""A topic may be made again under its name: its replicas may have any id that it had."""

import json

from kchaos.checkers.evidence.zookeeper import topic_ids
from kchaos.checkers.zookeeper_log import ZnodeChange


def test_each_id_that_a_topic_had_is_known():
    contents = [
        {"version": 3, "topic_id": "first"},
        None,
        {"version": 3, "topic_id": "second"},
        {"version": 2},
    ]
    changes = [
        ZnodeChange(
            zxid=zxid,
            session=1,
            time_ms=0,
            operation="delete" if content is None else "create",
            path="/brokers/topics/t",
            data=None if content is None else json.dumps(content).encode(),
            version=0,
        )
        for zxid, content in enumerate(contents)
    ]

    assert topic_ids(changes) == {"t": {"first", "second"}}
