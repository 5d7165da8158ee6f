/**
 * The JavaScript fold behind a pipe: one JSON line in ({ start?, batches }), one JSON line out ({ state } or { error }).
 * Run by test_twin.py, which says where the fold is.
 */
import { createInterface } from "node:readline";

const { emptyState, fold, waitingFor } = await import(process.argv[2]);

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    const { start, batches } = JSON.parse(line);
    const first = JSON.stringify(start ?? null);
    let state = start ?? emptyState("t1");
    for (const batch of batches) state = fold(state, batch);
    // The fold must not write to what it was given: a client compares states by identity.
    if (JSON.stringify(start ?? null) !== first) throw new Error("the fold changed the state it was given");
    said = { state, waiting: waitingFor(state) };
  } catch (error) {
    said = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
