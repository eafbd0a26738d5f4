"""What runs inside the client nodes: needs kafka-python, confluent-kafka, NumPy, pyarrow and nothing else."""
