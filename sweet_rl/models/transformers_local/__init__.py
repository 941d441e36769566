"""A model of `transformers` in this process, CPU or GPU, as a ChatModel: sampling with continuous batching.

How it works, from the outside in:

- `TransformersModel` (model.py) puts each call into a queue and waits. A worker thread owns the model.
- `GenerationEngine.step` (engine.py) is called by the worker as long as anything is waiting or running. It admits the
  waiting requests that there is room for, computes each new prompt once for all its samples, and gives every running
  row its next token. Rows join and leave the batch at any step.
- `KVArena` (kv_arena.py) holds keys and values, one row for each sample. A finished row is replaced by the last row.
- `KeptTexts` (kept_texts.py) holds the keys and values of a finished reply, so that a dialogue's next prompt, which
  begins with that text, computes only its new tokens.
- `sample_tokens` draws one token per row from one uniform random number per row. The numbers of a row come from its own
  seed, so its reply does not depend on the company in the batch, up to rounding: matrix products of another batch shape
  differ in the last bits, which changes a token if its number lies that close to the edge between two tokens.
- For a tiny model (float32, at most `threads.TINY` weights and 4,096 tokens) such a token is drawn again from a forward
  pass over its row alone in float64, so that the company decides nothing. In the demo this is one token in a thousand.
  Log-probs keep their rounding.

The continuous batching of transformers 5 (`generate_batch`) is not used, because it has one seed for a whole batch
instead of one per request, so that a reply would depend on its company, and because on a CPU it is much slower.

The prompt's ids are those of `ChatFormat.encode`, so that training sees exactly the ids that sampling saw. Attention
must be full and causal; a sliding window limits the context instead.
"""
