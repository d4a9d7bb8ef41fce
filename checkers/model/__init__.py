"""The reference model: predicts every replica's log under a release's protocol.

`predict(timeline)` takes `events` and returns a `prediction.Prediction`; `generation_for` says
which rules a broker follows. Pure: no I/O, nothing beyond the standard library.
"""

from checkers.model import events, prediction
from checkers.model.generation import Generation
from checkers.model.generations import RELEASES, generation_for
from checkers.model.predicting import predict

__all__ = ["RELEASES", "Generation", "events", "generation_for", "predict", "prediction"]
