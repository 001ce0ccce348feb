"""Records: what producers send, consumers get and logs keep.

A *batch* is a header of 61 bytes and a *block* of records, which may be compressed. Where is what:

- `batch`: headers, read, walked over, written in place; and batches built of records
- `record`: what a record is; checking those of a batch, finding some, decoding them
- `control`: batches that say how a transaction ended
- `legacy`: the messages of magic 0 and 1 that there were before; `down_convert` makes them of batches for old clients
- `compression`, `crc`: the codecs, with limits; the checksum
- `kernel`: the loops over records, compiled where a C compiler was; `load_kernel` chooses (`KMINI_PURE=1`: interpreted)
- `cython_words`: what stands for the module `cython` in a kernel that runs interpreted
- `sieve`: the loops of compaction, likewise; loaded by the first cleaning
- `columns`: the loops of those who read whole logs: records into the columns of Apache Arrow, likewise; `varints`: the
  numbers in records, for kernels (in `varints.pxd` for compiled ones)
- `tombstones`: records that delete their key although they have a value (KIP-87); `flagging`: its loops, likewise

No byte of a batch is believed. Headers are read as they stand; who acts on one checks it first: `is_crc_valid`,
`check_records`.
"""
