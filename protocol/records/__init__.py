"""Records: what producers send, consumers get and logs keep.

A *batch* is a header of 61 bytes and a *block* of records, which may be compressed. Where is what:

- `batch`: headers, read, walked over, written in place; and batches built of records
- `record`: what a record is; checking those of a batch, finding some, decoding them
- `control`: batches that say how a transaction ended
- `compression`, `crc`: the codecs, with limits; the checksum
- `kernel`: the loops over records, compiled where a C compiler was; `load_kernel` chooses (`KMINI_PURE=1`: interpreted)

No byte of a batch is believed. Headers are read as they stand; who acts on one checks it first: `is_crc_valid`,
`check_records`.
"""
