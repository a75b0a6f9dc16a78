// Questions to this server, and nobody else. An error has the server's two sentences.
import { queryOf } from "./address.js";
import { Refused } from "./asking.js";

export const SERVED = true; // by a server, which has other pages and other forms of an answer
const BUSY_MS = 400;

export async function get(path, parameters = {}) {
  const query = queryOf(parameters);
  const address = `/api/v1/${path}${query ? `?${query}` : ""}`;
  for (let left = 4; ; left -= 1) {
    let response;
    try {
      response = await fetch(address, { headers: { "x-refusals": "told" } }); // a refusal is no fault of the page
    } catch {
      throw new Refused(0, { error: "The server does not answer.", hint: "Is sweepdb serve still running?" });
    }
    if (response.ok) {
      const told = await response.json();
      if (told?.refused) throw new Refused(told.refused, told);
      return told;
    }
    if (response.status === 503 && left > 0) {
      await new Promise((done) => setTimeout(done, BUSY_MS));
      continue;
    }
    throw new Refused(response.status, await response.json().catch(() => ({})));
  }
}
