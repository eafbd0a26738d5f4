"""Read Kafka's own files, without Kafka or Spark, a slice at a time; damage never raises.

``batches.header_slices`` yields batch headers (``batches.HEADERS``) with CRC-32C verified; ``records.decode`` decodes
any selection of them, and may set their ``problem``::

    with batches.mapped(file) as data:
        for headers in batches.header_slices(data):
            for rows, found in records.decode(data, headers):
                ...
"""
