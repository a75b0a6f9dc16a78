// The page of a site: Explore alone, of a store as it was when somebody published it.
import { fill, h } from "./dom.js";
import { explore } from "./explore.js";
import { get, ready } from "./api.js";
import { failure } from "./parts.js";

async function start() {
  document.title = "Explore - sweepdb";
  const main = document.getElementById("main");
  const told = await get("state");
  fill(document.getElementById("store"), `${told.store}, published by sweepdb ${told.version}; `, h("a", { href: "data/probes.parquet", download: "probes.parquet" }, "rows as Parquet"));
  const loading = h("span", { role: "status" }, " Loading DuckDB: new limits wait for it.");
  document.getElementById("store").append(loading);
  await explore(main);
  await ready();
  loading.remove();
}

start().catch((error) => {
  fill(document.getElementById("main"), failure(error));
  document.body.dataset.seq = String(Number(document.body.dataset.seq) + 1);
});
