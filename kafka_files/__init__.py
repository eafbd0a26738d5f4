"""Kafka's own files, read without Kafka and without Spark.

A segment is read in two steps, each in slices, so that memory does not grow with the file:

1. ``batches.header_slices(data)`` yields the headers of all batches as NumPy structured arrays (``batches.HEADERS``),
   each batch with its CRC-32C verified. A row's ``problem`` is 0 or a ``batches.Problem``: a torn tail, a wrong
   CRC, another message format. Damage is a row, never an exception.
2. ``records.decode(data, headers)`` decodes the records of any selection of these rows (of the batches that differ
   between replicas, say) and yields ``records.Decoded(headers, records)``: the rows of a slice, whose ``problem`` may
   now be ``MALFORMED``, ``CODEC`` or ``TOO_LARGE``, and an Arrow RecordBatch of ``records.RECORDS``, integers only:
   ``batch`` (a row of the slice's headers), ``base_offset``, ``leader_epoch``, ``offset``, ``timestamp_ms``,
   ``key_length``, ``value_length``, ``producer`` (dictionary of the payloads' producer ids, null: not one of ours),
   ``seq``, ``checksum_ok``.
   Control batches have no records; ``records.marker(data, header)`` says how one ends its transaction.

Example::

    with batches.mapped(file) as data:
        for headers in batches.header_slices(data):
            for rows, found in records.decode(data, headers):
                ...

``records.values(data, headers)`` yields ``(header, offset, value)`` record by record for readers that need the bytes
of few records.

The other files: ``segments`` (which segments a folder holds, and one Arrow table of all of it), ``checkpoints``
(leader-epoch-checkpoint and the offset checkpoints), ``indexes`` (.index and .timeindex), ``metadata_log``,
``znodes``, ``states``, ``broker_log``, ``clock``. ``codecs`` decompresses. ``inspection`` reports on a broker's disk.
"""
