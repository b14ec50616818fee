// Requests to this server. The key is sent in a header, to this origin only, and kept for this tab at most.

const KEY = "madke-key";

function keptKey() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return keptKey.value ?? null; // Without storage the key is forgotten with the page.
  }
}

function keepKey(value) {
  keptKey.value = value;
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // See keptKey.
  }
}

/** Replace the children of an element; lists and nothing are allowed as for `el`. */
const fill = (node, ...children) => node.replaceChildren(...el("div", {}, children).childNodes);

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The response of this server; throws Refused with the server's reason if it refuses. */
async function ask(path, body, options = {}) {
  const headers = { accept: "application/json" };
  if (keptKey()) headers.authorization = `Bearer ${keptKey()}`;
  const sent = body && { method: "POST", body: JSON.stringify(body) };
  if (body) headers["content-type"] = "application/json";
  const response = await fetch(path, { ...options, ...sent, headers, credentials: "omit", referrerPolicy: "no-referrer" });
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  throw new Refused(response.status, said?.error?.message ?? `The server answered with status ${response.status}.`);
}

/** The events in a stream of server-sent events. Comments are skipped. */
async function* eventsIn(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (held + value).split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length > 0) yield JSON.parse(data.join("\n"));
    }
  }
}
