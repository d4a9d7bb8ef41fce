"""Names of topic ids that no control request tells."""

from kchaos.clusters.links.details import TopicNames

TOPIC_ID = bytes(range(16))


def test_an_unknown_topic_id_is_asked_for_until_it_has_a_name() -> None:
    names, asked = TopicNames(), []
    answers = iter((None, "t"))

    def ask(topic_id: str) -> str | None:
        asked.append(topic_id)
        return next(answers)

    names.ask = ask
    assert [names.name_of(TOPIC_ID) for _ in range(3)] == [None, "t", "t"]
    assert asked == ["AAECAwQFBgcICQoLDA0ODw"] * 2


def test_a_name_and_the_id_of_no_topic_are_not_asked_for() -> None:
    names = TopicNames()
    names.ask = lambda _topic_id: "wrong"
    assert names.name_of("t") == "t"
    assert names.name_of(bytes(16)) is None
