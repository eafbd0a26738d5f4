"""What is checked: records, replicas and elections against what Kafka promises."""
