"""Two versions of Kafka against each other."""
