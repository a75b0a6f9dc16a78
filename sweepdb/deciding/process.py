"""How far predictions are off, and how settings near each other are off alike: a Gaussian process of log ratios.

Not here: which runs it is conditioned on (sweepdb.deciding.own_runs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALES = (2.5, 2.0, 3.0, 1.5, 1.0, 1.0)  # of a place: users, input, output, devices (log2), dp, ep


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Standard deviations of log(measured / predicted): of a whole server, of its shape, and between two runs."""

    common: float
    shape: float
    length: float
    noise: float

    def covariance(self, these: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the expected values at two lists of places."""
        scale = self.length * np.asarray(SCALES)
        apart = these[:, None, :] / scale - others[None, :, :] / scale
        found: NDArray[np.float64] = self.common**2 + self.shape**2 * np.exp(-0.5 * (apart**2).sum(axis=2))
        return found

    def conditioned(
        self, places: NDArray[np.float64], seen: NDArray[np.float64], ratios: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and covariance of log ratios at places, after runs at those that were seen."""
        whole = self.covariance(places, places)
        if not len(seen):
            return np.zeros(len(places)), whole
        across = self.covariance(places, seen)
        weights = np.linalg.solve(self.covariance(seen, seen) + self.noise**2 * np.eye(len(seen)), across.T).T
        return weights @ ratios, whole - weights @ across.T

    def marginal(
        self, places: NDArray[np.float64], seen: NDArray[np.float64], ratios: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of each place by itself: of thousands of places no covariance is made."""
        variance = np.full(len(places), self.common**2 + self.shape**2)
        if not len(seen):
            return np.zeros(len(places)), variance
        across = self.covariance(places, seen)
        weights = np.linalg.solve(self.covariance(seen, seen) + self.noise**2 * np.eye(len(seen)), across.T).T
        return weights @ ratios, variance - (weights * across).sum(axis=1)


PRIORS = {
    "ttft_ms": Prior(common=0.44, shape=0.60, length=0.87, noise=0.25),
    "tpot_ms": Prior(common=0.13, shape=0.19, length=0.85, noise=0.09),
}
