// Hears by the stream of events that something has changed. What it is, the view asks then.

import { openStream } from "/page/api.js";

const AGAIN_MS = 3_000;

let open = null;

/** Call `onChange` when events of these types come, until the next call. No types end it. */
export function listen(types, topic, onChange) {
  const wanted = JSON.stringify([types, topic]);
  if (open?.wanted === wanted) return;
  open?.abort.abort();
  open = null;
  if (!types?.length) return;
  open = { wanted, abort: new AbortController(), isHeard: false };
  hear(open, { types: types.join(","), topic }, onChange);
}

/** Whether a stream is open, so that nothing changes unheard. */
export const isHeard = () => open?.isHeard ?? false;

async function hear(stream, query, onChange) {
  while (open === stream) {
    try {
      const reader = (await openStream("/events", query, stream.abort.signal)).getReader();
      const decoder = new TextDecoder();
      stream.isHeard = true;
      onChange(); // what came before the stream was open
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        if (/^event:/m.test(decoder.decode(value, { stream: true }))) onChange();
      }
    } catch {
      // the server has gone, or the view has changed: the page asks by the clock meanwhile
    }
    stream.isHeard = false;
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}
