"""What changed between two releases in their class files: methods, rules, versions of requests."""

import zipfile
from pathlib import Path

from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from tests.look_up.class_files import changed, main, methods, request_versions, to_look_at

# As javap -c -p prints it.
PARTITION = """Compiled from "Partition.scala"
public class kafka.cluster.Partition implements kafka.utils.Logging {
  private final kafka.log.LogManager logManager;

  public boolean isReplicaIsrEligible(int);
    Code:
       0: aload_0
       1: invokevirtual #12                 // Method kafka/cluster/Partition.eligible:()Z
       4: ifeq          9
       7: iconst_1
       8: ireturn
      10: invokestatic  #77,  2            // Method $anonfun$isReplicaIsrEligible$4:()Z

  public static final boolean $anonfun$isReplicaIsrEligible$4();
    Code:
       0: iconst_0
       1: ireturn
}
"""
MOVED = (
    PARTITION.replace("kafka.cluster.", "org.apache.kafka.server.")
    .replace("kafka/cluster/", "org/apache/kafka/server/")
    .replace("#12 ", "#4711 ")
    .replace("Eligible$4", "Eligible$9")
    .replace("       4: ifeq          9", "       5: ifeq          11")
)


def test_a_class_that_only_moved_is_unchanged():
    assert changed(methods(PARTITION), methods(MOVED)) == {}


def test_a_class_that_is_no_longer_nested_is_unchanged_and_what_a_compiler_made_is_left_out() -> (
    None
):
    nested = PARTITION.replace(".eligible:()Z", ".eligible:(Lkafka/RequestChannel$Request;)Z")
    moved = nested.replace("kafka/RequestChannel$Request", "org/apache/Request")
    assert changed(methods(nested), methods(moved)) == {}
    setter = "  public void logManager_$eq();\n    Code:\n       0: return\n\n  public boolean is"
    with_setter = PARTITION.replace("  public boolean is", setter, 1)
    assert changed(methods(PARTITION), methods(with_setter)) == {}


def test_a_method_with_another_call_constant_or_lambda_is_named_with_its_rules():
    for old, new in (
        (".eligible:()Z", ".live:()Z"),
        ("       7: iconst_1", "       7: iconst_0"),
        ("       0: iconst_0\n", "       0: iconst_1\n"),
    ):
        before, after = methods(PARTITION), methods(MOVED.replace(old, new))
        assert changed(before, after) == {"Partition": ["isReplicaIsrEligible"]}
        rules = set(to_look_at(EVERY_RULE, before, after))
        assert {"KIP-903", "KIP-841"} <= rules
        assert "KAFKA-15221" not in rules


def test_versions_of_requests_are_read_from_the_jar_and_a_missing_release_ends_with_2(
    tmp_path: Path, capsys
):
    jar = tmp_path / "org/apache/kafka/kafka-clients/4.4.0/kafka-clients-4.4.0.jar"
    jar.parent.mkdir(parents=True)
    with zipfile.ZipFile(jar, "w") as archive:
        text = '// of a broker\n{"apiKey": 1, "validVersions": "4-18", "fields": []}'
        archive.writestr("common/message/FetchRequest.json", text)
    assert request_versions(tmp_path, "4.4.0") == {"Fetch": "4-18"}
    assert main(["4.4.0", "--before", "4.3.1", "--jars", str(tmp_path)]) == 2
    assert "no jar of Kafka 4.3.1" in capsys.readouterr().err
    assert main(["4.99.0"]) == 2
    assert "'4.99.0' is no known Kafka release" in capsys.readouterr().err
