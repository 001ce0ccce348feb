"""The kernels: loops over records, compiled where a C compiler was, interpreted elsewhere.

They are written in Cython's pure-Python mode; `protocol/extension_modules.py` says how such modules run compiled and
interpreted. setup.py puts a kernel and the parts that it imports into one file before it compiles them, so the C
compiler sees all of it and calls between the parts cost nothing. `records` is imported like any module, the others by
`load_kernel`, beside this package, when they are first needed.

The kernels, each an extension module of its own, loaded when it is first needed:

- `records`: records and producers' batches checked, records made of tuples and into tuples; every process needs it
- `sieve`: compaction; the first cleaning loads it
- `flagging`: the tombstone flag (KIP-87); the first topic that has it loads it
- `columns`: records into columns of Apache Arrow; a scan of segments loads it
- `lines`: lines of text into records; `kmini produce` loads it

Their parts:

- `numbers`: the numbers in records and headers; `checksum`: CRC-32C, and the batches whose checksum is right
- `scan`: the fields of one record, for all kernels; `cut_record`: of one that comes in pieces
- `walker`, `plain_batches`, `tuples`: of `records`
- `siphash`, `key_table`, `simple_batches`, `rewrite`: of `sieve`
- `column_parts`, `column_kinds`, `hidden_batches`: of `columns`

`layout`, beside this package, says where the fields are.
"""
