"""The calls of a run of ``steady`` with one phase, in their order, as the fake world notes them."""

PHASE = "run_phase 0 steady"
START = ["prepare 3.9.1", "start_cluster", "create_topics", "start_clients", "capture before"]
END = ["stop_producers", "quiesce", "drain", "capture after"]
ALWAYS = ["stop_clients", "collect", "tear_down"]
AFTERWARDS = ["judge", "publish"]
