"""Check records, replicas and elections against Kafka's guarantees."""
