"""What runs inside the client nodes: needs kafka-python, confluent-kafka, pyarrow and nothing else."""
