// Questions to DuckDB in this browser, in place of a server: the same addresses, the same documents.
import { Site } from "./site_answers.js";

export const SERVED = false;
const site = new Site();
export const ready = () => site.ready();

export async function get(path, parameters = {}) {
  const [kind, name] = path.split("/");
  if (kind === "answer") return site.answer(name, parameters);
  if (kind === "measured") return site.file("measured.json");
  const told = await site.file("site.json");
  return { ...(kind === "scope" ? told.scope : {}), state: told.state, store: told.store, version: told.version };
}
