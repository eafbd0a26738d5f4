"""Judge a recorded run: plain functions over a partition's evidence, without Spark or Kafka."""
