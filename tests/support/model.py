"""The vocabulary of the model for tests, as `m`: acts, events, observations, values of a state."""

from kchaos.checkers.acts import *
from kchaos.checkers.model.follow.observations import *
from kchaos.checkers.model.state.state import *
from kchaos.checkers.model.state.world import *
from kchaos.checkers.model.values.epoch_cache import *
from kchaos.checkers.model.values.events import *
from kchaos.checkers.model.values.log import *
from kchaos.checkers.model.values.prediction import *
from kchaos.checkers.model.values.producers import *
from kchaos.checkers.model.values.replica import *
from kchaos.checkers.model.values.requests import *
from kchaos.checkers.model.values.shared import *
