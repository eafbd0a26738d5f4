"""Define the nodes' ports, the same on every runtime.

No fault affects PROBE, so that an isolated broker stays observable.
"""

from typing import Literal

Listener = Literal["REPLICATION", "CLIENT", "PROBE", "CONTROLLER"]  # what speaks Kafka's protocol

PORTS = {"REPLICATION": 9091, "CLIENT": 9092, "PROBE": 9093, "CONTROLLER": 9094, "METRICS": 9095, "ZOOKEEPER": 2181}
