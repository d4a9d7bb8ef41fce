"""KIP-279's proposal beside the four alternatives that it rejects, and beside what was released.

The columns are rules over one release (`checkers.model.rules.kip_279_alternatives`), by default the
one that the document is about. Each of its scenarios is played with its own numbers.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from kchaos.checkers.acts import StartBroker
from kchaos.checkers.alternatives import kip_279_compaction
from kchaos.checkers.alternatives.comparison import Cell, Claim, Column, Comparison, Result, Row
from kchaos.checkers.alternatives.kip_279_scenes import (
    BASE,
    Common,
    failovers,
    late_high_watermark,
    scenario_1,
    scenario_2,
)
from kchaos.checkers.alternatives.recorded import rows_of
from kchaos.checkers.alternatives.scenes import Scene, play
from kchaos.checkers.alternatives.searching import Bounds, Say, drawn, explored
from kchaos.checkers.model.bounds import Machine
from kchaos.checkers.model.generation import Generation, Rule
from kchaos.checkers.model.generations import generation_for
from kchaos.checkers.model.rules.kip_279_alternatives import (
    ALTERNATIVE_1,
    ALTERNATIVE_2,
    AS_WRITTEN,
    HIGH_WATERMARK_EPOCH,
    OLD_LEADER_LEAVES,
)

TITLE = "where a follower truncates after fast leader changes"
SHIPPED = "2.0.1"
FENCED = "2.5.1"
"""The first release line in which every fetch is fenced, so that only truncation can go wrong."""

COLUMNS = (
    Column(key="KIP-101", title=f"{BASE}: the leader answers without an epoch"),
    Column(key="proposal", title=f"{BASE} with the proposal as it is written"),
    Column(key="alt. 1", title=f"{BASE} with alternative 1: an error, then the next epoch below"),
    Column(key="alt. 2", title=f"{BASE} with alternative 2: several epochs in one request"),
    Column(key="clean 1", title=f"{BASE} that asks for the epoch of its high watermark"),
    Column(key="clean 2", title=f"{BASE} whose preferred election drops the old leader"),
    Column(key=SHIPPED, title=f"what was released, with KAFKA-7415; over {FENCED} that release"),
)
FAILOVERS = (1, 2, 3, 4, 5)
TELLING = ("proposal", SHIPPED)
"""The columns whose responses have an epoch."""

_TRUNCATING: Mapping[str, Rule | None] = {
    "KIP-101": None,
    "proposal": AS_WRITTEN,
    "alt. 1": ALTERNATIVE_1,
    "alt. 2": ALTERNATIVE_2,
    "clean 1": HIGH_WATERMARK_EPOCH,
}
_REQUEST_BITS = {"partition": 32, "leader_epoch": 32}
_RESPONSE_BITS = {"error_code": 16, "partition": 32, "end_offset": 64}
_EPOCH_BITS = 32
_END_BITS = _EPOCH_BITS + 64
_COUNT_BITS = 32
"""What Kafka's protocol writes before the items of an array; the document leaves it out."""


def generations(base: str = BASE) -> Mapping[str, Generation]:
    """Return what a broker does in each column, laid over a release without KIP-279."""
    without = ["KIP-279"]
    rules: Mapping[str, Rule | None] = {**_TRUNCATING, "clean 2": OLD_LEADER_LEAVES}
    found = {
        key: generation_for(base, without=without, also=() if rule is None else [rule.name])
        for key, rule in rules.items()
    }
    found[SHIPPED] = generation_for(SHIPPED if base == BASE else base)
    return found


def compare_run(run: Path, say: Say) -> Comparison:
    """Return what each alternative would have done in a recorded run.

    Pushing the old leader out of the ISR would have changed the elections, and cannot be asked.

    Raises:
        CheckError: The run cannot be read, or has nothing to compare.
    """
    rules = {key: () if rule is None else (rule.name,) for key, rule in _TRUNCATING.items()}
    columns = {key: partial(_laid, also=also) for key, also in rules.items()}
    rows = rows_of(run, {**columns, "released": partial(_laid, also=None)}, say)
    shown = [
        replace(one, title=one.title.replace(BASE, "its release"))
        for one in COLUMNS
        if one.key in columns
    ]
    shown.append(Column(key="released", title="its release as it is"))
    return Comparison(document="KIP-279", title=TITLE, columns=tuple(shown), rows=rows)


def _laid(start: StartBroker, also: Collection[str] | None) -> Generation:
    """Return what a broker of a run does in a column; None is what it does as released."""
    return generation_for(
        start.release,
        inter_broker_protocol=start.inter_broker_protocol,
        message_format=start.message_format,
        without=() if also is None else ["KIP-279"],
        also=also or (),
    )


def extra_bits(column: str, rounds: int, named_epochs: tuple[int, ...] = ()) -> int:
    """Return how many bits more than one round of KIP-101 a partition's rounds take.

    The array of alternative 2 is counted as the document counts it, without its length.
    """
    usual = sum(_REQUEST_BITS.values()) + sum(_RESPONSE_BITS.values())
    bits = rounds * (usual + (_EPOCH_BITS if column in TELLING else 0))
    bits += sum(_END_BITS * count - _EPOCH_BITS for count in named_epochs)
    return bits - usual


def cell_of(column: str, scene: Scene, generation: Generation, brokers: int = 2) -> Cell:
    """Return what came of a scene."""
    ended = play(scene, dict.fromkeys(range(brokers), generation))
    rounds = max(Counter(one.follower for one in ended.rounds).values(), default=0)
    said = "round" if rounds == 1 else "rounds"
    return Cell(
        result=Result.RIGHT if ended.is_right else Result.WRONG,
        text=f"{'right' if ended.is_right else 'wrong'}, {rounds} {said}",
        numbers={
            "rounds": rounds,
            "epochs named": sum(ended.named_epochs),
            "extra bits": extra_bits(column, rounds, ended.named_epochs),
            "refetched": ended.refetched,
            "lost": ended.lost,
        },
        detail=(*scene.notes, *ended.happened()),
    )


def _row(
    name: str, question: str, scene: Callable[[Generation], Scene], *, brokers: int = 2
) -> Row:
    cells = {key: cell_of(key, scene(one), one, brokers) for key, one in generations().items()}
    return Row(name=name, question=question, cells=cells)


def _turns_name(changes: int) -> str:
    return f"3, {changes} failover{'s' if changes > 1 else ''}"


def scene_rows() -> tuple[Row, ...]:
    """Return the document's scenarios, and more failovers of its last."""
    rows = [
        _row(
            f"1, n={n}",
            f"B wrote 11 to {n} in epoch 2, A leads in epoch 3: does B take over A's log?",
            partial(scenario_1, n=n),
        )
        for n in (15, 20, 25)
    ]
    rows.append(_row("2", "A restarts with HW 11: are 11 to 20 left alone?", scenario_2))
    for high_watermark in (0, 2):
        turns = partial(failovers, changes=3, is_checkpointed=high_watermark > 0)
        question = f"3 failovers, A has HW {high_watermark} on disk: does A take over B's log?"
        rows.append(_row(f"3, HW={high_watermark}", question, turns))
    for changes in FAILOVERS:
        turns = partial(failovers, changes=changes, common=Common.RECORD)
        question = f"Failovers after a record that both have: {changes}; is the other log taken?"
        rows.append(_row(_turns_name(changes), question, turns))
    rows.append(
        _row(
            "2, late HW",
            "Scenario 2 with a committed record of another epoch above A's HW: is it kept?",
            late_high_watermark,
            brokers=3,
        )
    )
    return tuple(rows)


def _bits_row(name: str, question: str, measured: Row) -> Row:
    """Return the bits that a row's rounds took."""
    cells = {
        key: Cell(text=f"{cell.numbers['extra bits']:+}", numbers=cell.numbers)
        for key, cell in measured.cells.items()
    }
    return Row(name=name, question=question, cells=cells)


def bits_rows(scenes: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return how many more bits go over the wire than KIP-101's, in four scenarios."""
    known = {row.name: row for row in scenes}
    return tuple(
        _bits_row(f"bits, {name}", "Bits of one partition beyond one round of KIP-101", known[name])
        for name in ("2", "1, n=20", "3, 3 failovers", "3, 5 failovers")
    )


def machine(generation: Generation, size: int = 2) -> Machine:
    """Return two replicas that take three records, and so many leader epochs and offsets."""
    return Machine(
        generations=dict.fromkeys((0, 1), generation), records=3, leader_epoch=size, log_size=size
    )


def searched_rows(bounds: Bounds, say: Say) -> tuple[Row, ...]:
    """Return what exhaustive and random schedules say, over two releases."""
    rows = []
    for base in (BASE, FENCED) if bounds.most_states else ():
        cells = {}
        for key, one in generations(base).items():
            say(f"every interleaving of {key} over {base}")
            cells[key] = explored(machine(one), "agreement", bounds)
        question = f"Over {base}, elections clean: are logs that look equal always equal?"
        rows.append(Row(name=f"all, {base}", question=question, cells=cells))
    for is_unclean in (False, True) if bounds.schedules else ():
        cells = {}
        word = "unclean" if is_unclean else "clean"
        for key, one in generations(FENCED).items():
            say(f"random schedules of {key}, elections {word}")
            brokers = dict.fromkeys((0, 1), one)
            cells[key] = drawn(brokers, bounds, is_unclean=is_unclean)
        question = f"Over {FENCED}, elections {word}: how many random schedules break something?"
        rows.append(Row(name=f"drawn, {word}", question=question, cells=cells))
    return tuple(rows)


def _says_bits(said: str, cell: Cell, wanted: int) -> Claim:
    bits = int(cell.numbers["extra bits"])
    found = f"{bits:+} bits"
    if cell.numbers["epochs named"]:
        found += f", and {bits + _COUNT_BITS:+} with the length that Kafka writes before an array"
    return Claim(said=said, found=found, holds=bits == wanted)


def _says_rounds(said: str, rows: tuple[Row, ...], wanted: Mapping[str, int]) -> Claim:
    known = {row.name: row.cells for row in rows}
    found = {key: int(known["1, n=20"][key].numbers["rounds"]) for key in wanted}
    text = ", ".join(f"{key}: {count}" for key, count in found.items())
    return Claim(said=said, found=f"rounds in scenario 1: {text}", holds=found == wanted)


def _rounds(key: str, changes: int, common: Common, *, is_checkpointed: bool = False) -> int:
    one = generations()[key]
    scene = failovers(one, changes, common=common, is_checkpointed=is_checkpointed)
    return int(cell_of(key, scene, one).numbers["rounds"])


def _first(wanted: Callable[[int], bool]) -> int | None:
    return next((changes for changes in FAILOVERS if wanted(changes)), None)


def _takes_fewer(changes: int, common: Common, *, is_checkpointed: bool) -> bool:
    proposal, alternative = (
        _rounds(key, changes, common, is_checkpointed=is_checkpointed)
        for key in ("proposal", "alt. 2")
    )
    return alternative < proposal


def _failover_claims() -> tuple[Claim, ...]:
    first = {one: _first(lambda n, one=one: _rounds("proposal", n, one) >= 2) for one in Common}  # type: ignore[misc]
    above = _first(lambda n: _takes_fewer(n, Common.NOTHING, is_checkpointed=True))
    with_record = _first(lambda n: _takes_fewer(n, Common.RECORD, is_checkpointed=False))
    return (
        Claim(
            said="2 roundtrips is required starting at 3 consecutive fast leader failovers",
            found=f"the proposal first takes 2 after {first[Common.NOTHING]} failovers, and after "
            f"{first[Common.EPOCH]} where the epoch also grows when the follower dies, as "
            "controllers have it",
            holds=first[Common.NOTHING] == 3,
        ),
        Claim(
            said="To get the advantage of less roundtrips, the scenario above shoud add one more "
            "step",
            found="alternative 2 first takes fewer than the proposal after "
            f"{above} failovers where nothing is common and the high watermark is 2 or more, and "
            f"after {with_record} with a common record above a high watermark of 0",
            holds=above == 4,
        ),
    )


def scene_claims(rows: tuple[Row, ...]) -> tuple[Claim, ...]:
    """Return the document's figures against what the scenarios took."""
    known = {row.name: row.cells for row in rows}
    right = [known["3, HW=2"][key].result is Result.RIGHT for key in ("proposal", "alt. 2")]
    return (
        _says_bits("The proposed solution does add 32bits", known["1, n=20"]["proposal"], 32),
        _says_bits("this approach adds minimum 64bits", known["2"]["alt. 2"], 64),
        _says_bits(
            "maximum (clean leader election edge case described above) 160bits",
            known["1, n=20"]["alt. 2"],
            160,
        ),
        _says_rounds(
            "one roundtrip for clean leader election case, while the alternative may result in 2",
            rows,
            {"proposal": 1, "alt. 1": 2, "alt. 2": 1},
        ),
        *_failover_claims(),
        Claim(
            said="Broker A will truncate to its HW which is offet 0",
            found="so with HW 0; with the HW 2 that the same scenario has under alternative 2 "
            "A keeps its offset 0, and both differ",
            holds=all(right),
        ),
    )


def searched_claims(bounds: Bounds, say: Say) -> tuple[Claim, ...]:
    """Return what the document says of all clean elections, against every interleaving."""
    claims = []
    asked = (
        (
            "proposal",
            "one-round",
            "The proposed solution guarantees one roundtrip for clean leader election case",
        ),
        (
            "alt. 2",
            "two-epochs",
            "maximum 160bits, for at most one epoch is unknown to the new leader",
        ),
    )
    for key, wanted, said in asked if bounds.most_states else ():
        say(f"every interleaving of {key}: {wanted}")
        cell = explored(machine(generations()[key], 3), wanted, bounds, preferred=1)
        steps = f" steps: {'; '.join(cell.detail)}" if cell.result is Result.WRONG else ""
        holds = None if cell.result is Result.UNKNOWN else cell.result is Result.RIGHT
        claims.append(
            Claim(
                said=said,
                found=f"one preferred replica, every interleaving: {cell.text}{steps}",
                holds=holds,
            )
        )
    return tuple(claims)


def compare(bounds: Bounds, say: Say) -> Comparison:
    """Return the comparison."""
    say("the document's scenarios")
    scenes = scene_rows()
    rows = (*scenes, *bits_rows(scenes), *searched_rows(bounds, say))
    claims = (*scene_claims(scenes), *searched_claims(bounds, say))
    say("compaction")
    return Comparison(
        document="KIP-279",
        title=TITLE,
        columns=COLUMNS,
        rows=rows,
        claims=claims,
        further=(kip_279_compaction.compare(),),
    )
