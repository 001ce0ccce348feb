"""What a log knows of its producers: sequences, epochs, open transactions.

- `producer_state_manager`: the producers of one log, checks of a new batch, the last stable offset. Where to read on
- `producer_entry`: one producer with its last five batches; a batch that it sends again
- `verifications`: transactions that are being verified (KIP-890)
- `producer_snapshot`: `NN.snapshot`, the producers as they were at an offset
- `producer_replay`: the producers of a log that is loaded: the newest snapshot, then the batches after it
"""
