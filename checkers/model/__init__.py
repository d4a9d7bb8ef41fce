"""The reference model: predicts every replica's log under a release's protocol.

`follow(record)` and `predict(timeline)` return a `prediction.Prediction`, from what was seen of a
run or from events alone; `generation_for` says which rules a broker follows. Pure: no I/O, nothing
beyond the standard library.
"""

from kchaos.checkers.model.follow.search import follow
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle.predict import predict
from kchaos.checkers.model.values import events, prediction

__all__ = ["Generation", "events", "follow", "generation_for", "predict", "prediction"]
