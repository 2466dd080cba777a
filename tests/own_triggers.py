"""Triggers of a user, for several tests."""

from dataclasses import dataclass

import numpy as np

from slicing import Trigger


@dataclass(frozen=True)
class EveryNth(Trigger):
    """Fires a window after each `n` of its records. It has a state, and no rule for windows that merge."""

    n: int
    state = "seen bigint"
    final = False

    def on_records(self, windows, at):
        seen = windows["seen"] + windows.came
        windows["seen"] = seen % self.n
        return np.where(seen >= self.n, self.FIRE, self.CONTINUE)
