"""Read Kafka's own files, without Kafka or Spark.

A segment is read in two steps, in slices, so that memory does not grow with the file:

1. ``batches.header_slices(data)`` yields the headers of all batches as NumPy rows (``batches.HEADERS``), with
   CRC-32C verified. ``problem`` is 0 or a ``batches.Problem``. Damage never raises.
2. ``records.decode(data, headers)`` decodes any selection of these batches and yields ``records.Decoded(headers,
   records)``: the slice's headers, whose ``problem`` may now be ``MALFORMED``, ``CODEC`` or ``TOO_LARGE``, and an
   Arrow RecordBatch of ``records.RECORDS``. Control batches have no records; ``records.marker(data, header)`` returns
   how one ends its transaction.

Example::

    with batches.mapped(file) as data:
        for headers in batches.header_slices(data):
            for rows, found in records.decode(data, headers):
                ...

``records.values(data, headers)`` yields ``(header, offset, value)``, for readers of few records.

Most other modules are named after the files that they read. ``segments`` has all of a segment as one Arrow table;
``inspection`` reports on a broker's disk.
"""
