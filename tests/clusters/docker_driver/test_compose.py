"""docker-compose.yml: what it gives, and what it says when it was not prepared."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from kchaos.clusters.ask.probe import known_brokers
from kchaos.clusters.docker_driver.compose import write_environment
from kchaos.clusters.errors import MachineError, ReleaseError
from kchaos.clusters.start.configuration import FAST_JVM_FLAGS
from kchaos.clusters.system.ports import ReservedPort, reserve_port
from kchaos.clusters.system.waiting import await_until

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

FILE = Path(__file__).parents[3] / "docker-compose.yml"
PORTS = ("BROKER_0_PORT", "BROKER_1_PORT", "BROKER_2_PORT", "ZOOKEEPER_PORT")

Compose = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ports() -> Iterator[dict[str, ReservedPort]]:
    reserved = {name: reserve_port() for name in PORTS}
    yield reserved
    for port in reserved.values():
        port.release()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / f"compose{os.getpid()}"
    folder.mkdir()
    shutil.copyfile(FILE, folder / FILE.name)
    return folder


@pytest.fixture
def compose(project: Path, ports: dict[str, ReservedPort]) -> Iterator[Compose]:
    """Runs compose in a folder that has a copy of the file; ends what it started."""
    command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    numbers = {name: str(port.number) for name, port in ports.items()}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments],
            cwd=project,
            env=os.environ | numbers,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    yield run
    if (project / ".env").is_file():
        done = run("down", "--timeout", "1")
        assert done.returncode == 0, done.stderr


@pytest.mark.needs("compose")
def test_without_preparation_compose_names_the_command(compose: Compose):
    done = compose("up", "-d")
    assert done.returncode != 0
    assert "kchaos compose --kafka RELEASE" in done.stderr


@pytest.mark.needs("compose")
@pytest.mark.parametrize("kafka", ["2.8.2", "4.1.2"], ids=["ZooKeeper", "KRaft"])
def test_records_are_produced_and_read_from_this_machine(
    kafka: str, compose: Compose, project: Path, ports: dict[str, ReservedPort]
):
    write_environment(kafka, project, say=print)
    done = compose("up", "-d")
    assert done.returncode == 0, done.stderr
    numbers = [ports[name].number for name in PORTS[:3]]
    await_until(
        lambda: [known_brokers(number) for number in numbers] == [3, 3, 3],
        timeout_s=90,
        waiting_for="all brokers to know each other",
        last_seen=lambda: [known_brokers(number) for number in numbers],
        remedy="see docker-compose logs",
    )
    servers = [f"127.0.0.1:{number}" for number in numbers]
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=False)
    try:
        assert producer.send("t", b"played").get(timeout=60).offset == 0
    except KafkaError as error:
        raise AssertionError(compose("logs", "--tail", "20").stdout) from error
    finally:
        producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    consumer.assign([TopicPartition("t", 0)])
    assert next(consumer).value == b"played"
    consumer.close()
    seen = compose("exec", "-T", "broker-1", "cat", "/etc/hostname", "/proc/1/cmdline").stdout
    host_name, _, command = seen.partition("\n")
    assert host_name == "broker-1"
    # They start as a cluster's brokers do.
    assert {*FAST_JVM_FLAGS} <= {*command.split("\0")}


def test_a_mode_that_a_release_does_not_have_is_refused(project: Path):
    with pytest.raises(ReleaseError, match="has no ZooKeeper any more"):
        write_environment("4.1.2", project, mode="zookeeper", say=print)
    with pytest.raises(ReleaseError, match=r"does not run with KRaft"):
        write_environment("2.8.2", project, mode="kraft", say=print)
    assert not (project / ".env").exists()


def test_somebody_elses_env_file_is_left_alone(project: Path):
    (project / ".env").write_text("MINE=1\n")
    with pytest.raises(MachineError, match="was not written by kchaos"):
        write_environment("2.8.2", project, say=print)
    assert (project / ".env").read_text() == "MINE=1\n"
    (project / ".env").unlink()


def test_somebody_elses_compose_file_is_left_alone(tmp_path: Path):
    (tmp_path / "docker-compose.yml").write_text("services: {}\n")
    with pytest.raises(MachineError, match=r"docker-compose\.yml is not kchaos's"):
        write_environment("2.8.2", tmp_path, say=print)
    assert (tmp_path / "docker-compose.yml").read_text() == "services: {}\n"


def test_a_folder_without_the_file_gets_ours(tmp_path: Path):
    with pytest.raises(ReleaseError, match="no Kafka is named"):
        write_environment("", tmp_path, say=print)
    assert (tmp_path / "docker-compose.yml").read_text() == FILE.read_text()
