// Rows as a table that a screen reader can read and a person can sort by eye.
import { fill, h, number } from "./dom.js";
import { SERVED } from "./api.js";
import { tick } from "./ticks.js";
import { shortened } from "./words.js";

const GIB = 2 ** 30;
const FEW = 5; // no button for so few rows
const PROBE = /^[0-9a-f]{6,64}:[0-9]+$/;
const SHORT = {
  input_tokens_per_s: "tokens/s",
  input_tokens_per_s_per_device: "tokens/s/device",
  system_input_tokens_per_s: "tokens/s of all",
  system_output_tokens_per_s: "tokens/s of all",
  batch_size: "batch",
  ttft_ms: "TTFT ms",
  tpot_ms: "TPOT ms",
  tpot_exclusive_ms: "TPOT ms",
  e2e_ms: "end to end ms",
  memory_free_gib: "free GiB",
  num_devices: "devices",
  tokens_per_s_per_user: "tokens/s/user",
  output_tokens_per_s_per_device: "tokens/s/device",
  usd_per_million_tokens: "$/M tokens",
  usd_per_hour: "$/h",
  usd_per_million_output_tokens: "$/M output tokens",
  output_tokens_per_s: "tokens/s",
  ranked_tokens_per_s: "tokens/s, as ranked",
  system_requests_per_s: "requests/s",
  requests_per_s: "requests/s",
  requests_per_s_per_device: "requests/s/device",
  arrivals_per_s: "arrivals/s",
};

const made = new WeakMap(); // objects by the rows that they are of

export function objects(answer) {
  if (!made.has(answer.rows)) {
    const names = answer.columns.map((one) => one.name);
    made.set(answer.rows, answer.rows.map((row) => {
      const one = {};
      for (let place = 0; place < names.length; place += 1) one[names[place]] = row[place];
      return one;
    }));
  }
  return made.get(answer.rows);
}

export function chosen(answer, wanted) {
  const names = new Set(answer.columns.map((one) => one.name));
  const shown = wanted ?? answer.shown ?? [...names];
  return shown.filter((name) => names.has(name) || (name === "memory_free_gib" && names.has("memory_free_bytes")) || name === "usd_per_million_tokens");
}

export function value(row, name) {
  if (name === "memory_free_gib") return row.memory_free_bytes === null || row.memory_free_bytes === undefined ? null : row.memory_free_bytes / GIB;
  return row[name];
}

// A table that begins with a few rows, and a button for the others.
export function folding(answer, rows, { most, left = 0, ...options }) {
  const box = h("div", { class: "folding" });
  const whole = () => fill(box, table(answer, rows, options), left > 0 ? h("p", { class: "quiet small" }, `${number(left)} more: the CSV has them.`) : null);
  if (rows.length <= most + FEW) whole();
  else {
    const all = h("button", { type: "button", class: "plain", onclick: () => { whole(); box.querySelector(".scroll").focus(); } }, `show all ${number(rows.length)} rows${left > 0 ? ` of ${number(rows.length + left)}` : ""}`);
    fill(box, table(answer, rows.slice(0, most), options), h("p", {}, all));
  }
  return box;
}

// A table of rows; columns that no row has are left out.
export function table(answer, rows, { columns = null, caption, explain = true, id = null } = {}) {
  const said = (name) => rows.map((row) => value(row, name)).filter((cell) => ![null, undefined, ""].includes(cell));
  const alike = (name) => name === "launchable" && rows.length > 1 && new Set(said(name)).size === 1;
  const names = chosen(answer, columns).filter((name) => name !== "question_group" && said(name).length && !alike(name));
  const ticked = SERVED && explain && names.includes("probe");
  const about = new Map(answer.columns.map((one) => [one.name, one]));
  const left = new Set(names.filter((name) => typeof rows.map((row) => value(row, name)).find((cell) => ![null, undefined].includes(cell)) !== "number"));
  const head = names.map((name) => {
    const known = about.get(name === "memory_free_gib" ? "memory_free_bytes" : name);
    const told = known?.meaning ? `${known.meaning}${known.unit && known.unit !== "none" ? ` (${known.unit})` : ""}` : null;
    return h("th", { scope: "col", title: told, class: left.has(name) ? "left" : null }, SHORT[name] ?? name.replaceAll("_", " "));
  });
  const spans = new Map((answer.ttft_intervals ?? []).map((one) => [one.probe, one]));
  const body = rows.map((row) =>
    h("tr", {}, ticked ? h("td", { class: "tick" }, tick(row.probe)) : null, names.map((name) => {
      const cell = value(row, name);
      const linked = SERVED && explain && typeof cell === "string" && PROBE.test(cell);
      const plan = name.endsWith("plan") ? answer.plans?.[cell] : name === "deployment" && typeof cell === "string" ? shortened(cell, answer.plans ?? {}) : undefined;
      const span = name === "ttft_ms" && cell !== null ? spans.get(row.probe) : undefined;
      if (span) return h("td", { title: "users in step, or apart" }, `${number(span.least_ms)}–${number(span.most_ms)}`);
      const text = plan !== undefined ? plan : linked ? h("a", { href: `/explain?probe=${encodeURIComponent(cell)}` }, cell) : name === "mode" && cell === "pd" ? "disaggregated" : number(cell);
      return h("td", { class: left.has(name) ? "left" : null, title: plan === undefined ? null : cell }, text);
    })),
  );
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { id, class: names.includes("rank") ? "ranked" : null }, h("caption", {}, h("span", {}, caption)), h("thead", {}, h("tr", {}, ticked ? h("th", { class: "tick", title: "tick two rows to compare them" }) : null, head)), h("tbody", {}, body)));
}
