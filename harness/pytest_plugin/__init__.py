"""kchaos for other people's tests: fixtures, markers and options of pytest.

    import pytest
    from kchaos import ExpireSession

    @pytest.mark.kafka_cluster(release="1.1.1", brokers=3)
    def test_expiry_loses_nothing(chaos):
        chaos.create_topic("t", replicas=[0, 1])
        chaos.produce("t", records=10, acks="all")
        with chaos.inject(ExpireSession(broker=0)):
            chaos.produce("t", records=10, acks="all")
        assert chaos.verdict().safe

Fixtures:
    chaos                 a live run: its calls are steps, recorded, replayable and judged
    kafka_cluster         a running cluster of the test's own, see `clusters.api.Cluster`
    shared_kafka_cluster  one that tests of the same shape share; `.cluster`, `.topic("t")`
    kafka_cluster_pool    for fixtures of a wider scope: calls give the cluster of a `ClusterSpec`
    zookeeper             a started kazoo client of the cluster that the test uses
    kafka_release         the release, or path, that the test's cluster runs

Markers: `kafka_cluster(release=, judged_as=, brokers=, zookeepers=, mode=, controllers=,
features=, properties=, linked=, client_links=, broker_memory_mib=, broker_cpus=, points=)`,
`chaos_seed(n)` and `chaos_settle_bound(seconds)`.
A marker comes before every option. Options: command line before environment before ini file.

    --kafka-release    KCHAOS_KAFKA_RELEASE  kafka_release    repeated: each test on each release
    --kafka-judged-as  KCHAOS_JUDGED_AS      kafka_judged_as  whose rules judge a build of your own
    --kafka-driver     KCHAOS_DRIVER         kafka_driver     local (the default), docker
    --kchaos-runs-dir  KCHAOS_RUNS_DIR       kchaos_runs_dir  kchaos-runs
    --kchaos-keep      KCHAOS_KEEP           kchaos_keep      never, failed (the default), always
    --kchaos-seed      KCHAOS_SEED           kchaos_seed      a new one for each test
    --kchaos-offline   KCHAOS_OFFLINE        kchaos_offline   false

and --kchaos-settle-bound, KCHAOS_SETTLE_BOUND, kchaos_settle_bound: for how many seconds nothing
may change, once all is healed, before replication counts as stopped; 1.5 times the brokers'
longest time-out.

A run ends with `chaos.verdict()`, or with its test. Its seed, release, verdict and directory are
properties of the test's report (JUnit's as well); a failed test also shows the findings, the
brokers' last ERROR lines and the command that plays the run again. Run directories of passed
tests are removed unless they are kept, those that are unknown or not as predicted never are
while `kchaos_keep` is failed; the summary counts what stays and what went.
"""
