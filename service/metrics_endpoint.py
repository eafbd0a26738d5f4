"""Serve metrics of runs, host and campaigns locally, in Prometheus' formats (OpenMetrics on request).

Without a command: ``python -m service.metrics_endpoint <port> <folder of runs>``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from history.errors import BadInput

ADDRESS = "127.0.0.1"


def url_of(port: int) -> str:
    """Return the metrics' URL."""
    return f"http://{ADDRESS}:{port}/metrics"


@contextmanager
def serving(port: int | None, runs: Path) -> Iterator[None]:
    """Serve metrics during the block; do nothing without a port.

    Raises:
        BadInput: the port is not available.
    """
    if port is None:
        yield
        return
    from prometheus_client import CollectorRegistry, start_http_server

    from campaigns.places import Places
    from service.host_metrics import HostMetrics
    from service.live_metrics import LiveRuns

    registry = CollectorRegistry()
    registry.register(LiveRuns(runs))
    registry.register(HostMetrics(Places.beside(runs).site))
    try:
        server, thread = start_http_server(port, ADDRESS, registry)
    except (OSError, OverflowError) as error:
        raise BadInput(
            f"Port {port} of {ADDRESS} is not available ({error}); choose another by --metrics-port=<number>."
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    with serving(int(sys.argv[1]), Path(sys.argv[2])):
        Event().wait()
