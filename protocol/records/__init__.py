"""Records: what a producer sends, a log keeps and a consumer gets.

A *batch* is a header of 61 bytes and a *block* of records, which may be compressed:

- `layout`: where the fields of a batch and of a record are, and the reasons to refuse one
- `batch`: headers read, walked over and written in place; batches built of records
- `record`: what a record is; `batch_records` checks, finds and decodes the records of a batch
- `control`: the batches that end a transaction
- `compression`, `crc`: the codecs, with limits; the checksum
- `kernels`: the loops over records, compiled where a C compiler was; `load_kernel` imports those that not all need
- `tombstones`: records that delete their key although they have a value (KIP-87)
- `old_formats`: messages of magic 0 and 1, which came before batches

Reading a batch checks nothing. Code that acts on one checks it first: `is_crc_valid`, `check_records`.
"""
