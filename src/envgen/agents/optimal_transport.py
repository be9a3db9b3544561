"""Entropic partial optimal transport, for matching the achievements of two episodes."""

import numpy as np

from envgen.jit import jit


@jit
def partial_transport(cost, mass, reg, num_iterations):
    """The plan (n, m) that moves `mass` in all and at most 1 from each row and to each column.

    Dykstra's algorithm with Bregman projections (Benamou et al. 2015) onto the three constraints in turn: rows, columns
    and the total mass. The results equal those of POT's `entropic_partial_wasserstein` with unit masses.
    """
    n, m = cost.shape
    plan = np.exp(-cost / reg)
    plan *= mass / plan.sum()
    q1, q2, q3 = np.ones((n, m)), np.ones((n, m)), np.ones((n, m))
    for _ in range(num_iterations):
        before = plan * q1
        rows = before.copy()
        for i in range(n):
            total = before[i].sum()
            if total > 1:
                rows[i] /= total
        q1 = before / rows
        before = rows * q2
        columns = before.copy()
        for j in range(m):
            total = before[:, j].sum()
            if total > 1:
                columns[:, j] /= total
        q2 = before / columns
        before = columns * q3
        plan = before * (mass / before.sum())
        q3 = before / plan
    return plan


@jit
def match(source, target, reg, num_iterations, threshold, out):
    """For each row of `source` (n, d), the row of `target` (m, d) that it is matched with, or -1, in `out` (n,).

    The cost of a pair is its cosine distance; rows have unit length. A pair is matched if the plan that moves as much
    mass as possible moves more than `threshold` between them.
    """
    n, m = source.shape[0], target.shape[0]
    cost = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            similarity = 0.0
            for k in range(source.shape[1]):
                similarity += np.float64(source[i, k]) * np.float64(target[j, k])
            cost[i, j] = 1 - similarity
    plan = partial_transport(cost, np.float64(min(n, m)), reg, num_iterations)
    for i in range(n):
        j = plan[i].argmax()
        out[i] = j if plan[i, j] > threshold else -1
