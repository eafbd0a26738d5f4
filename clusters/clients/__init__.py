"""What runs inside the client nodes, with the libraries of ``clusters.runtimes.client_libraries`` and no others."""
