"""Histories from files: Jepsen's form as EDN and as JSON, what is refused, and published ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.errors import HistoryError
from kchaos.checkers.histories.edn import EdnError, edn_values
from kchaos.checkers.histories.files import read_history
from kchaos.checkers.histories.judgement import MOST_TOLD, judge_history
from kchaos.checkers.histories.operations import Poll, Send

LOST = """
{:index 0, :time 1, :process 0, :type :invoke, :f :send, :value [[:send 3 7] [:send 3 8]]}
{:index 1, :time 2, :process 0, :type :ok, :f :send, :value [[:send 3 [0 7]] [:send 3 [1 8]]]}
{:index 2, :time 3, :process 1, :type :invoke, :f :poll, :value [[:poll]]}
{:index 3, :time 4, :process 1, :type :ok, :f :poll, :value [[:poll {3 [[1 8]]}]]}
"""
CLEAN = LOST.replace("{3 [[1 8]]}", "{3 [[0 7] [1 8]]}")


def written(tmp_path: Path, text: str, name: str = "history.edn") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


# -- EDN ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true false", [True, False]),
        ("1 -2 +3 4N 5.5 -6e2 7M", [1, -2, 3, 4, 5.5, -600.0, 7.0]),
        (":ok :jepsen.history/ok some-symbol", ["ok", "jepsen.history/ok", "some-symbol"]),
        (r'"a\"b\n\u00e9" \a \newline \u0041', ['a"b\né', "a", "\n", "A"]),
        ("{:a 1, :b [2 (3)]}", {"a": 1, "b": [2, [3]]}),
        ("#{1 2}", [[1, 2]]),
        ("; a comment\n#_{:not 1} #_ #_ 1 2 3", 3),
        ("#jepsen.history.Op{:f :poll} #inst \"2024-11-12\"", [{"f": "poll"}, "2024-11-12"]),
        ("#object[a.B 0x1 \"y\"] 1/3 ##NaN", [["a.B", "0x1", "y"], "1/3", "##NaN"]),
        ("#'a/b #\"a.*\"", ["#'a/b", "a.*"]),
        ("{[1 {2 3}] #{4}}", {(1, ((2, 3),)): [4]}),
        ("9" * 500, "9" * 500),
        ("", []),
    ],
)  # fmt: skip
def test_edn_is_read(text: str, value: Any):
    read = [value for _, value in edn_values(text)]
    assert read == (value if isinstance(value, list) else [value])


def test_each_value_has_its_line_also_in_one_vector():
    assert [*edn_values("1\n\n; two\n2 {:a\n 1} 3")] == [(1, 1), (4, 2), (4, {"a": 1}), (5, 3)]
    assert [*edn_values("[1\n 2\n]\n")] == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{:a 1", "line 1: the text ends before '}'"),
        ("1\n{:a}", "line 2: a map has a key without a value"),
        ("{:a 1\n:a 2}", "line 1: a map has 'a' twice"),
        ("\n)", "line 2: ')' closes nothing"),
        ("[1 }", "line 1: '}' closes nothing"),
        ("[1]\n2", "line 2: something follows the list"),
        ('\n\n"open', "line 3: '\"open' is no EDN"),
        (r'"\q"', r"line 1: \q is nothing in a string"),
        (r"\nothing", r"line 1: \nothing is no character"),
        ("#tag", "line 1: nothing follows '#tag'"),
        ("[" * 100, "line 1: collections are nested deeper than 64"),
    ],
)
def test_what_is_no_edn_is_refused_with_its_line(text: str, why: str):
    with pytest.raises(EdnError) as error:
        [*edn_values(text)]
    assert str(error.value).startswith(why)


# -- operations -----------------------------------------------------------------------------------


def test_operations_are_read_in_the_order_in_which_they_ended(tmp_path: Path):
    history = read_history(
        written(
            tmp_path,
            """
            {:process 0, :type :invoke, :f :txn, :value [[:send :x 1] [:poll]]}
            {:process 1, :type :invoke, :f :assign, :value [:x "y" 3]}
            {:process 1, :type :ok, :f :assign, :value [:x "y" 3]}
            {:process :nemesis, :type :info, :f :kill, :value {"n1" #{:killed}}}
            {:process 2, :type :invoke, :f :send, :value [[:send :x 2]]}
            {:process 0, :type :ok, :f :txn, :rebalance-log [{:keys [:x]}],
             :value [[:send :x [4 1]] [:poll {:x [[3 0] [nil 5]]}]]}
            {:process 3, :type :invoke, :f :crash, :value nil}
            {:process 3, :type :info, :f :crash, :value nil}
            {:process 4, :type :invoke, :f :send, :value [[:send :x 6]]}
            {:process 4, :type :info, :f :send, :value nil, :error :timeout}
            """,
        )
    )
    assigned, done, crashed, unended = history
    assert (assigned.function, assigned.keys) == ("assign", ("x", "y", "3"))
    assert done.actions == (
        Send(key="x", value=1, offset=4),
        Poll(records={"x": ((3, 0), (None, 5))}),
    )
    assert (done.outcome, done.rebalanced, done.read_at) == ("ok", frozenset({"x"}), "line 7")
    # What a process began and of which nobody heard again is there as it was begun.
    assert (crashed.outcome, crashed.actions) == ("info", (Send(key="x", value=6),))
    assert (unended.outcome, unended.actions) == ("info", (Send(key="x", value=2),))
    assert [operation.index for operation in history] == [0, 1, 2, 3]


EVENTS: list[dict[str, Any]] = [
    {"process": 0, "type": "invoke", "f": "send", "value": [["send", 3, 7], ["send", 3, 8]]},
    {"process": 0, "type": "ok", "f": "send", "value": [["send", 3, [0, 7]], ["send", 3, [1, 8]]]},
    {"process": 1, "type": "invoke", "f": "poll", "value": [["poll"]]},
    {"process": 1, "type": "ok", "f": "poll", "value": [["poll", {"3": [[1, 8]]}]]},
]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("history.json", json.dumps(EVENTS, indent=1)),
        ("history.jsonl", "\n".join(map(json.dumps, EVENTS))),
    ],
)
def test_json_says_the_same_as_edn(tmp_path: Path, name: str, text: str):
    as_json = read_history(written(tmp_path, text, name))
    as_edn = read_history(written(tmp_path, LOST))

    assert [(each.outcome, each.actions) for each in as_json] == [
        (each.outcome, each.actions) for each in as_edn
    ]
    lines = {"history.json": "line 19", "history.jsonl": "line 2"}
    assert as_json[0].read_at == lines[name]


INVOKE = "{:process 0, :type :invoke, :f :send, :value [[:send 3 7]]}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "history.edn: there is no operation of a client in it"),
        ("{:process :nemesis, :type :info, :f :kill}", "there is no operation of a client"),
        ("(ns some.clojure)", "line 1: an event is a map, and this is 'ns'"),
        ("{:a 1", "history.edn: line 1: the text ends before '}'"),
        ("\n{:process 0, :type :ok}", "line 2: the event has no f"),
        ("{:process 0, :f :send, :type :done}", "line 1: the type is 'done'"),
        ("{:process 0, :f 1, :type :ok}", "line 1: f is 1"),
        (INVOKE + INVOKE, "line 2: process 0 begins an operation before that of line 1 has ended"),
        (
            INVOKE + "{:process 0, :type :ok, :f :poll, :value []}",
            "line 2: process 0 ends 'poll', and began 'send' at line 1",
        ),
        ("{:process 0, :f :send, :type :ok, :value 3}", "line 1: the value is 3"),
        ("{:process 0, :f :send, :type :ok, :value [[:put 3 7]]}", "['put', 3, 7] is no action"),
        ("{:process 0, :f :txn, :type :ok, :value [[:poll {3 7}]]}", "7 was polled"),
        ("{:process 0, :f :txn, :type :ok, :value [[:poll {3 [7]}]]}", "must be [offset value]"),
        ("{:process 0, :f :txn, :type :ok, :value [[:poll {3 [[-1 7]]}]]}", "an offset is -1"),
        ("{:process 0, :f :txn, :type :ok, :value [[:poll {3 [[0x1 7]]}]]}", "an offset is '0x1'"),
        ("{:process 0, :f :txn, :type :ok, :value [[:poll {[3] []}]]}", "a key is (3,)"),
        ("{:process 0, :f :txn, :type :ok, :value [[:send 3 {:a 1}]]}", "a value is {'a': 1}"),
        ("{:process 0, :f :txn, :type :ok, :value [[:send 1.5 7]]}", "a key is 1.5"),
        ("{:process 0, :f :assign, :type :ok, :value 3}", "it must be a list of keys"),
    ],
)
def test_what_is_no_history_is_refused_with_file_and_line(tmp_path: Path, text: str, why: str):
    file = written(tmp_path, text)
    with pytest.raises(HistoryError) as error:
        read_history(file)
    assert why in str(error.value)
    assert str(file) in str(error.value)


NEMESIS = b'{"process": "nemesis", "type": "info", "f": "kill"}'


@pytest.mark.parametrize(
    ("content", "name", "why"),
    [
        (b"{:a 1}\n\xff", "history.edn", "line 2: a byte that is no UTF-8"),
        (NEMESIS + b'\n{"a": }', "history.jsonl", "line 2: it is no JSON"),
        (b'[{"a": 1},\n\n{"a": }]', "history.json", "line 3: it is no JSON"),
        (b"[" * 500, "history.json", "nested deeper"),
        (b'[{"a": NaN}]', "history.json", "NaN is no number"),
    ],
)
def test_bytes_that_are_no_text_are_refused_with_their_line(
    tmp_path: Path, content: bytes, name: str, why: str
):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(HistoryError) as error:
        read_history(file)
    assert why in str(error.value)
    assert str(file) in str(error.value)


def test_a_file_that_is_not_there_or_is_none_is_refused(tmp_path: Path):
    with pytest.raises(HistoryError, match="cannot be read"):
        read_history(tmp_path / "none.edn")
    with pytest.raises(HistoryError, match="Is a directory"):
        read_history(tmp_path)


# -- judged ---------------------------------------------------------------------------------------


def test_a_history_is_valid_if_nothing_denies_it(tmp_path: Path):
    judged = judge_history(written(tmp_path, CLEAN))
    assert (judged.valid, judged.unknown, judged.findings) == (True, None, ())

    judged = judge_history(written(tmp_path, LOST))
    assert (judged.valid, judged.counts) == (False, {"lost-write": 1, "unseen": 1})
    lost = judged.findings[0]
    assert (lost.kind, lost.first_offset, lost.evidence["key"]) == ("lost-write", 0, "3")
    assert "(line 3)" in lost.message
    # The same anomaly of another history has the same fingerprint, another anomaly another one.
    again = judge_history(written(tmp_path, LOST.replace(" 3 ", " 4 ").replace("{3", "{4")))
    assert [each.fingerprint for each in again.findings] == [
        each.fingerprint for each in judged.findings
    ]
    assert len({each.fingerprint for each in judged.findings}) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("".join(CLEAN.splitlines(keepends=True)[3:]), "no producer sent it"),
        (CLEAN.replace(":ok, :f :send", ":info, :f :send"), "no send was acknowledged"),
    ],
)
def test_what_shows_nothing_is_unknown_and_no_pass(tmp_path: Path, text: str, why: str):
    judged = judge_history(written(tmp_path, text))
    assert judged.valid is None
    assert why in (judged.unknown or "")


def test_many_anomalies_of_a_name_are_counted_and_the_first_are_told(tmp_path: Path):
    sends = " ".join(f"[:send 3 [{offset} {offset}]]" for offset in range(40))
    text = f"""
    {{:process 0, :type :ok, :f :send, :value [{sends}]}}
    {{:process 1, :type :ok, :f :poll, :value [[:poll {{3 [[39 39]]}}]]}}
    """
    judged = judge_history(written(tmp_path, text))
    assert judged.counts["lost-write"] == 39
    assert [each.kind for each in judged.findings].count("lost-write") == MOST_TOLD


def test_only_what_kafka_permits_leaves_a_history_valid(tmp_path: Path):
    """Jepsen allows G0, int-send-skip, G1c by the order of writes, and rebalances too."""
    text = """
    {:process 0, :type :ok, :f :subscribe, :value [:x :y]}
    {:process 1, :type :ok, :f :send, :value [[:send :x [0 1]] [:send :x [2 3]] [:send :y [1 3]]]}
    {:process 2, :type :ok, :f :send, :value [[:send :x [1 2]] [:send :y [0 2]]]}
    {:process 0, :type :ok, :f :poll, :value [[:poll {:x [[0 1] [1 2] [2 3]] :y [[0 2] [1 3]]}]]}
    {:process 0, :type :ok, :f :poll, :value [[:poll {:x [[0 1]]}]]}
    """
    judged = judge_history(written(tmp_path, text))
    assert judged.valid is True
    assert {each.kind for each in judged.findings} == {"G0", "int-send-skip", "permitted-anomaly"}
    (rebalanced,) = (each for each in judged.findings if each.kind == "permitted-anomaly")
    assert rebalanced.message.startswith("nonmonotonic-poll: ")


def test_circles_that_kafka_permits_are_counted_in_one_short_line(tmp_path: Path):
    def circle(one: str, other: str) -> str:
        return f"""
        {{:process 1, :type :ok, :f :send, :value [[:send {one} [0 1]] [:send {other} [1 3]]]}}
        {{:process 2, :type :ok, :f :send, :value [[:send {one} [1 2]] [:send {other} [0 2]]]}}
        """

    names = [":" + letter * 60 for letter in "abcdef"]
    text = "".join(circle(*pair) for pair in zip(names[::2], names[1::2], strict=True))
    judged = judge_history(written(tmp_path, text))
    assert judged.counts["G0"] == 3
    (note,) = (each for each in judged.findings if each.kind == "G0")
    assert note.message.endswith(" … (and 2 more)")
    assert len(note.message) < 200


# -- what Jepsen published ------------------------------------------------------------------------

# Written from the reports' and the workload's words: redpanda-21.10.1 (2022) and bufstream-0.1.0
# (2024) at jepsen.io/analyses, the README of jepsen-io/redpanda.
PUBLISHED = {
    # Redpanda 21.10.1: two acknowledged sends at offset 537 of key 11, four seconds apart.
    "inconsistent-offsets": """
    {:process 379, :type :invoke, :f :send, :value [[:send 11 641]]}
    {:process 379, :type :ok, :f :send, :value [[:send 11 [537 641]]]}
    {:process 363, :type :invoke, :f :send, :value [[:send 11 645]]}
    {:process 363, :type :ok, :f :send, :value [[:send 11 [537 645]]]}
    """,
    # Redpanda 21.10.1, with pauses and kills: value 711 of key 8 is in the log twice.
    "duplicate": """
    {:process 1, :type :invoke, :f :send, :value [[:send 8 711]]}
    {:process 1, :type :ok, :f :send, :value [[:send 8 [40 711]]]}
    {:process 2, :type :invoke, :f :poll, :value [[:poll]]}
    {:process 2, :type :ok, :f :poll, :value [[:poll {8 [[40 711] [41 711]]}]]}
    """,
    # Redpanda 21.11.2: acknowledged, and after minutes of last polls still read by nobody.
    "unseen": """
    {:process 1, :type :invoke, :f :send, :value [[:send 5 1]]}
    {:process 1, :type :ok, :f :send, :value [[:send 5 [0 1]]]}
    {:process 1, :type :invoke, :f :send, :value [[:send 5 2]]}
    {:process 1, :type :ok, :f :send, :value [[:send 5 [1 2]]]}
    {:process 2, :type :invoke, :f :poll, :value [[:poll]]}
    {:process 2, :type :ok, :f :poll, :value [[:poll {5 [[0 1]]}]]}
    """,
    # Redpanda 21.10.1: two transactions each read what the other wrote.
    "G1c": """
    {:process 1, :type :invoke, :f :txn, :value [[:send 1 10] [:poll]]}
    {:process 2, :type :invoke, :f :txn, :value [[:send 2 20] [:poll]]}
    {:process 1, :type :ok, :f :txn, :value [[:send 1 [0 10]] [:poll {2 [[0 20]]}]]}
    {:process 2, :type :ok, :f :txn, :value [[:send 2 [0 20]] [:poll {1 [[0 10]]}]]}
    """,
    # Kafka before KIP-890: a late EndTxn commits the next transaction, which its client aborts.
    "G1a": """
    {:process 1, :type :invoke, :f :txn, :value [[:send 1 1]]}
    {:process 1, :type :info, :f :txn, :value [[:send 1 1]], :error :timeout}
    {:process 1, :type :invoke, :f :txn, :value [[:send 1 2]]}
    {:process 1, :type :fail, :f :txn, :value [[:send 1 2]], :error :aborted}
    {:process 2, :type :invoke, :f :poll, :value [[:poll]]}
    {:process 2, :type :ok, :f :poll, :value [[:poll {1 [[0 1] [1 2]]}]]}
    """,
    # The other way round: a late abort takes a transaction that was committed.
    "lost-write": """
    {:process 1, :type :invoke, :f :txn, :value [[:send 1 1] [:send 2 1]]}
    {:process 1, :type :ok, :f :txn, :value [[:send 1 [0 1]] [:send 2 [0 1]]]}
    {:process 1, :type :invoke, :f :txn, :value [[:send 1 2]]}
    {:process 1, :type :ok, :f :txn, :value [[:send 1 [2 2]]]}
    {:process 2, :type :invoke, :f :poll, :value [[:poll]]}
    {:process 2, :type :ok, :f :poll, :value [[:poll {1 [[2 2]], 2 [[0 1]]}]]}
    """,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_jepsen_published_is_judged_alike(tmp_path: Path, name: str):
    judged = judge_history(written(tmp_path, PUBLISHED[name]))
    assert judged.valid is False
    assert judged.counts[name] == 1
