"""Records: what a producer sends, a log keeps and a consumer gets.

A *batch* is a header of 61 bytes and a *block* of records, which may be compressed:

- `layout`: where the fields of a batch and of a record are, and the reasons to refuse one
- `batch`: headers read, walked over and written in place; batches built of records
- `record`: what a record is; `batch_records` checks, finds and decodes the records of a batch
- `control`: the batches that end a transaction
- `compression`, `crc`: the codecs, with limits; the checksum
- `kernel`: the loops over records, compiled where a C compiler was; `load_kernel` chooses (`KMINI_PURE=1`: interpreted)
- `cython_words`: what stands for the module `cython` in a kernel that runs interpreted
- `sieve`: the loops of compaction, likewise; loaded by the first cleaning
- `columns`: the loops of those who read whole logs: records into the columns of Apache Arrow, likewise; `varints`: the
  numbers in records, for kernels (in `varints.pxd` for compiled ones)
- `tombstones`: records that delete their key although they have a value (KIP-87); `flagging`: its loops, likewise
- `old_formats`: messages of magic 0 and 1, which came before batches

Reading a batch checks nothing. Code that acts on one checks it first: `is_crc_valid`, `check_records`.
"""
