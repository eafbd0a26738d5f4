"""Run inside the client nodes, with only the libraries of ``clusters.runtimes.client_libraries``."""
