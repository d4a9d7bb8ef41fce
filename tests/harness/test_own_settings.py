"""A server.properties of somebody's own: what the brokers of a test are given of it."""

from pathlib import Path

import pytest

from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.harness.errors import UsageError
from kchaos.harness.run import own_settings as settings_module
from kchaos.harness.run.own_settings import OwnSettings, own_settings


def read(folder: Path, text: str, release: str = "4.0.2", *, is_kraft: bool = True) -> OwnSettings:
    file = folder / "server.properties"
    file.write_text(text)
    return own_settings(file, release_of(release), is_kraft=is_kraft, brokers=3)


def test_what_a_test_has_to_set_and_what_names_files_or_classes_is_left_out(tmp_path: Path):
    own = read(
        tmp_path,
        "# production\nprocess.roles=broker,controller\nnode.id=4\nlisteners=PLAINTEXT://:9092,\\\n"
        "  SSL://:9093\nlog.dirs=/a,/b\nnum.io.threads = 16\nssl.keystore.location=/etc/k.jks\n"
        "offsets.topic.replication.factor=5\nmin.insync.replicas=2\nmin.insync.replica=2\n"
        "zookeeper.session.timeout.ms=6000\nlog.message.timestamp.type=LogAppendTime\n",
    )
    assert own.taken == (
        ("num.io.threads", "16"),
        ("min.insync.replicas", "2"),
        ("log.message.timestamp.type", "LogAppendTime"),
    )
    assert [*own.texts()] == [
        f"Brokers are given 3 settings of {tmp_path}/server.properties.",
        "Left out (kchaos sets it): process.roles, node.id, listeners, log.dirs.",
        "Left out (it may load a class, read a file or connect elsewhere): ssl.keystore.location.",
        "Left out (there are 3 brokers): offsets.topic.replication.factor.",
        "Left out (no broker setting is named 'min.insync.replica': did you mean "
        "min.insync.replicas?): min.insync.replica.",
        "Left out (4.0.2 does not know the broker setting zookeeper.session.timeout.ms: it went "
        "after 3.9): zookeeper.session.timeout.ms.",
        "With log.message.timestamp.type=LogAppendTime conformance is unknown: brokers change the "
        "timestamps of what they get.",
    ]
    # Nothing that is taken is refused when a cluster starts.
    ClusterSpec(brokers=(BrokerSpec(id=0, kafka="4.0.2"),), properties=dict(own.taken))


def test_the_settings_that_somebody_made_are_taken_from_a_description(tmp_path: Path):
    own = read(
        tmp_path,
        "All configs for broker 1 are:\n"
        "  num.io.threads=16 sensitive=false synonyms={STATIC_BROKER_CONFIG:num.io.threads=16, "
        "DEFAULT_CONFIG:num.io.threads=8}\n"
        "  log.flush.interval.messages=9 sensitive=false synonyms={DEFAULT_CONFIG:a=9}\n"
        "  ssl.key.password=null sensitive=true synonyms={STATIC_BROKER_CONFIG:b=null}\n"
        "  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:c=2}\n",
    )
    assert own.taken == (("num.io.threads", "16"), ("log.cleaner.threads", "2"))
    assert own.left_out == ()


@pytest.mark.parametrize("codec", ["lz4", "producer"])
def test_what_no_client_of_a_test_could_read_is_left_out(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(settings_module, "why_not_compressed", lambda name, _magic: f"no {name}")
    own = read(tmp_path, f"compression.type={codec}\n")
    assert own.left_out == ((("compression.type", "no lz4"),) if codec == "lz4" else ())


def test_other_settings_make_another_case(tmp_path: Path):
    first, other = (read(tmp_path, f"num.io.threads={count}\n") for count in (8, 16))
    assert first.case != other.case
    assert first.case == read(tmp_path, "node.id=3\nnum.io.threads=8\n").case


@pytest.mark.parametrize(
    ("text", "is_kraft", "why"),
    [
        ("process.roles=controller\n", True, "is of a controller"),
        ("process.roles=broker\n", False, "is of a broker with KRaft"),
        ("zookeeper.connect=a:2181\n", True, "is of a broker with ZooKeeper"),
        ("num.io.threads\n", True, "line 1: 'num.io.threads' is not name=value"),
    ],
)
def test_a_file_of_another_role_or_mode_is_refused(
    text: str, is_kraft: bool, why: str, tmp_path: Path
):
    with pytest.raises(UsageError, match=why):
        read(tmp_path, text, "3.9.1", is_kraft=is_kraft)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="none is no server"):
        own_settings(tmp_path / "none", release_of("4.0.2"), is_kraft=True, brokers=3)
