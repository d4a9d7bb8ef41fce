"""The step after which healing all faults would not have helped."""

from kchaos.checkers.model.values.prediction import Unavoidable
from kchaos.harness.report.cause.differences import DIFFERING
from kchaos.harness.report.cause.story import CauseStep, worst_of
from kchaos.harness.report.loading import Loaded

_MENDABLE = (*DIFFERING, "committed-loss", "last-replica-loss")


def no_way_back(loaded: Loaded) -> CauseStep | None:
    """Return the step after which healing all faults would not have helped, or None.

    The model computed it when the run was judged (`checkers.model.follow.unavoidable`).
    """
    finding = worst_of(loaded)
    if finding is None:
        return None
    prediction = loaded.prediction
    if finding.kind not in _MENDABLE:
        why = "the model computes it only where replicas differ or records are lost"
    elif prediction is None or not prediction.states or prediction.limit or prediction.emptied_by:
        why = "the model did not follow this run to its end"
    else:
        why = "in the model's explanation of this run more than one step may have decided it"
        if prediction.never_rests:
            why = "the model's cluster does not come to rest in a state before, once it is healed"
        since = decisive_step(loaded)
        if since is not None:
            return CauseStep(
                time=since.time,
                section="time",
                text=f"After this step the damage was permanent: {since.step}.",
            )
    return CauseStep(
        section="time", text=f"The step after which the damage was permanent is not known: {why}."
    )


def decisive_step(loaded: Loaded) -> Unavoidable | None:
    """Return the step that did the harm of the worst finding for good, if the model knows it."""
    finding, prediction = worst_of(loaded), loaded.prediction
    if finding is None or prediction is None:
        return None
    brokers = {*finding.brokers} if finding.kind in DIFFERING else set()
    for since in prediction.unavoidable:
        is_of_partition = (since.topic, since.partition) == (finding.topic, finding.partition)
        meets = since.first_offset <= finding.last_offset
        meets = meets and finding.first_offset <= since.last_offset
        if is_of_partition and meets and {*since.brokers} == brokers:
            return since
    return None
