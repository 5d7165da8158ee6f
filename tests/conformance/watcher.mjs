/**
 * The JavaScript client behind a pipe. One JSON line in: { watch: { url, thread, token? } }, { leave: thread } or
 * { do: { thread, action, how, with } }. One JSON line out for every state of a watched thread: { thread, state }.
 */
import { createInterface } from "node:readline";

const { WaitpointClient } = await import(process.argv[2]);

const watched = new Map();
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

/** What the server said of the thread, without what the client adds. */
function plain({ live, loaded, error, ...state }) {
  return { state, live, error: error === null ? null : error.code };
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.watch) {
    const { url, thread, token } = command.watch;
    const client = new WaitpointClient(url, token === undefined ? {} : { token });
    const stop = client.thread(thread).subscribe((view) => say({ thread, ...plain(view) }));
    watched.set(thread, () => (stop(), client.close()));
  } else if (command.leave) {
    watched.get(command.leave)?.();
    watched.delete(command.leave);
  }
}
for (const leave of watched.values()) leave();
