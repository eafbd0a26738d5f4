"""What a comparison's page explains: verdicts, views and limits."""

from __future__ import annotations

from history.results.compare import View

MEANS = {
    "correctness regression": "Head violates a guarantee that base keeps.",
    "regression": "A primary metric is worse by more than its margin.",
    "correctness improvement": "Base violates a guarantee that head keeps; no primary metric is worse by more than its "
    "margin.",
    "improvement": "A primary metric is better by more than its margin, and none is worse.",
    "equivalent": "Every primary metric lies within its margin.",
    "no violation": "No run of either side violated a guarantee; there is too little load to ask for a primary metric.",
    "calibration": "Base ran against itself alone: how many pairs a comparison needs on this host.",
    "inconclusive": "These runs do not suffice to decide.",
}
VIEWS = {
    "same_settings": "Same settings: both sides run the scenario's own settings, so a difference comes from what is "
    "compared alone.",
    "default_settings": "Default settings: Kafka's own timers replace the scenario's short ones, so a difference is "
    "what an upgrade brings.",
    "unfinalised": "Unfinalised upgrade: head runs with base's metadata.version or inter.broker.protocol.version, so a "
    "difference is what new binaries bring before the upgrade is finalised.",
}
OWN_SETTINGS = "Your own clusters: each has its own settings, so a difference may come from these."
VIEW_NAMES = {
    "same_settings": "same settings",
    "default_settings": "default settings",
    "unfinalised": "unfinalised upgrade",
}


def view_name(view: View, *, on_clusters: bool) -> str:
    """Name a view; ``on_clusters``: of others."""
    return "each with its own settings" if on_clusters else VIEW_NAMES[view]


def view_note(view: View, *, on_clusters: bool) -> str:
    """Explain a view."""
    return OWN_SETTINGS if on_clusters else VIEWS[view]


BY_DESIGN = (
    "behaviour_change is what a version does differently on purpose, such as a high watermark that moves below "
    "min.insync.replicas before Kafka 3.7 (KAFKA-15583, KIP-966). The page of each run explains each case."
)
_BEFORE_FINALISING = (
    "Each side runs at its own version's metadata.version or inter.broker.protocol.version, finalised; behaviour "
    "before an upgrade is finalised was not tested."
)
_BY_FINALISING = (
    "Head runs at base's metadata.version or inter.broker.protocol.version; the effects of finalising the upgrade "
    "were not tested."
)
_OF_OTHERS = (
    "Clients run on this host: the way to each cluster, its hardware and the load of others are part of each figure."
)
_NOT_TESTED = {  # by view
    "same_settings": _BEFORE_FINALISING,
    "default_settings": _BEFORE_FINALISING,
    "unfinalised": _BY_FINALISING,
}


def limits(primary: int, view: View, *, on_clusters: bool = False) -> list[str]:
    """Return the limits; ``primary`` counts the primary metrics, ``on_clusters``: of others."""
    where = [
        "All nodes share one host. The figures compare two sides on it; they do not predict another host's.",
        _NOT_TESTED[view],
    ]
    return [
        f"The unit is a run on {'new topics' if on_clusters else 'a fresh cluster'}, and a pair of runs is one "
        "observation, however many records it holds.",
        "Intervals are paired t intervals on log-ratios at 95 %. With few pairs a single unusual run moves them; "
        "that log-ratios are normal is not checked, so look at the pairs.",
        f"The error of {primary} primary metric{'s' * (primary != 1)} together is held at 5 % by Holm's method, "
        "that of all secondary ones separately. An interval is that of its metric alone.",
        "Equivalent means: the whole interval lies within the margin. Inconclusive does not mean equivalent.",
        "Censored times, whose observation ended first, are compared by log-rank and restricted means, "
        "which never show equivalence and ignore the pairing of runs.",
        "Runs that failed, are unknown, missed their load or ran while the host was under pressure are in no "
        "effect. If a version makes that happen, it shows in the counts and not in the effects.",
        "No failure in so many runs still allows some: see the last column of the verdicts.",
        *([_OF_OTHERS] if on_clusters else where),
    ]
