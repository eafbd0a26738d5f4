"""All kinds of damage, in the order of the families below."""

from __future__ import annotations

from tests.mutations import clients, files, groups, missing, samples, transactions
from tests.mutations.kind import Kind

FAMILIES = (clients, samples, transactions, files, missing, groups)
_DECLARED = [each for family in FAMILIES for each in vars(family).values() if isinstance(each, Kind)]
KINDS = [each for each in _DECLARED if each.found_by or each.reason]
HARMLESS = [each for each in _DECLARED if each not in KINDS]
