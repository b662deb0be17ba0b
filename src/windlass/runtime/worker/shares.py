"""Divides the slots of a claim (`places`) fairly between orgs: deficit round robin.

Slots are assigned one by one, in alphabetical order of the orgs; the next claim continues after the org that got the
last slot. So no org waits longer than one round, and orgs that always have jobs get the same share, however long their
queues are. An org that had jobs but could not use its slots (another worker was claiming, its handlers were busy) gets
them in addition later, up to a limit.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping

MOST_OWED = 10  # slots
MOST_ORGS = 100  # in one claim


class FairShares:
    def __init__(self) -> None:
        self._last = ""  # the org that got the last slot
        self._owed: dict[str, int] = {}

    def deal(self, orgs: Collection[str], count: int, *, most: int = MOST_ORGS) -> dict[str, int]:
        """Return how many of `count` slots each of these orgs gets; orgs that get none are left out.

        At most `most` orgs get any: the others come first in the next claim.
        """
        if not orgs:
            return {}
        ring = sorted(orgs)
        start = bisect_right(ring, self._last)
        ring = (ring[start:] + ring[:start])[:most]
        shares: dict[str, int] = {}
        for org in ring:
            if owed := min(count, self._owed.get(org, 0)):
                shares[org] = owed
                count -= owed
        each, rest = divmod(count, len(ring))
        for n, org in enumerate(ring):
            if places := each + (n < rest):
                shares[org] = shares.get(org, 0) + places
        if each and len(ring) < len(orgs):
            self._last = ring[-1]
        elif rest:
            self._last = ring[rest - 1]
        return shares

    def used(self, shares: Mapping[str, int], taken: Mapping[str, int], *, without_jobs: Collection[str]) -> None:
        """Record how many of its slots each org has used. An org without further jobs is owed nothing."""
        for org, places in shares.items():
            owed = self._owed.get(org, 0)
            left = places - taken.get(org, 0)
            # What was owed is part of `places`: it is paid, or owed again.
            owed = 0 if org in without_jobs else min(MOST_OWED, max(0, owed - places) + left)
            if owed:
                self._owed[org] = owed
            else:
                self._owed.pop(org, None)
