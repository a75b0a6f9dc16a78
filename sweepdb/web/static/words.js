// Sentences about answers, as the command line writes them.
import { number } from "./dom.js";
import { LIMITS } from "./limits.js";

// Limits of a page that is opened without any.
export const USUAL_LIMITS = Object.fromEntries(LIMITS.filter((one) => one.slider?.usual).map((one) => [one.keyword, String(one.slider.usual)]));
const NAMED = /`([a-z][a-z0-9_]*)(?:=([^`]*))?`/g;

// Options stand as `keyword` in what the server says.
export function typed(text) {
  return text.replace(NAMED, (_, keyword, value) => `--${keyword.replaceAll("_", "-")}${value ? ` ${value}` : ""}`);
}

// A text whose plans are written short.
export function shortened(text, plans) {
  return text.split(" ").map((word) => plans[word] ?? word).join(" ");
}

function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", `'"'"'`)}'`;
}

const NAMES = new Set(["probes", "sweeps"]); // written without an option

export function command(report, parameters) {
  const parts = ["sweepdb", "query", report];
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  for (const [name, value] of given) if (NAMES.has(name)) parts.push(...String(value).split(",").map(quoted));
  for (const [name, value] of given) {
    if (NAMES.has(name)) continue;
    if (String(value) === "false") continue;
    parts.push(`--${name.replaceAll("_", "-")}`);
    if (String(value) !== "true") parts.push(quoted(String(value)));
  }
  return parts.join(" ");
}

const METRICS = {
  ttft_ms: "TTFT",
  tpot_exclusive_ms: "TPOT",
  tpot_inclusive_ms: "TPOT",
  output_tokens_per_s: "tokens/s",
};

const WHOSE = { tuned: "on servers tuned like the benchmarks'", others: "on others'", own: "on your own servers" };

// How far off such numbers have been, on each kind of servers: half of the measured values were nearer than the figure.
export function errorLines(errors) {
  const bySubject = new Map();
  for (const one of errors) {
    const key = `${one.subject}; ${one.servers}`;
    bySubject.set(key, [...(bySubject.get(key) ?? []), one]);
  }
  const lines = [...bySubject.values()].map((known) => {
    const figures = known.map((one) => `${METRICS[one.metric] ?? one.metric} ±${number(Math.round(one.median_ape_percent))} %`);
    const points = Math.min(...known.map((one) => one.points));
    const more = points < Math.max(...known.map((one) => one.points)) ? " or more" : "";
    const note = known[0].note ? `; ${known[0].note}` : "";
    return `${WHOSE[known[0].servers]}: ${figures.join(", ")} (median; ${points}${more} measured points: ${known[0].region}${note})`;
  });
  return [...new Set(lines)];
}

export function ruleLine(answer) {
  const limits = answer.limits;
  const given = LIMITS.filter((one) => !one.reserve && limits[one.field] !== null);
  const said = [
    ...given.map((one) => (one.least ? `${one.short} ≥ ${number(limits[one.field])}` : `${one.called} ≤ ${number(limits[one.field])} ${one.unit}`)),
    `${number(limits.reserved_gib)} GiB reserved`,
  ];
  const rules = answer.rules;
  return `Limits: ${said.join(", ")}. Rules: TPOT ${rules.tpot}, prefill rate ${rules.prefill_qps}, decode rate ${rules.decode_qps}, throughput ${rules.throughput}, KV charge ${rules.kv_charge}.`;
}

// What a question is about, as a line beside an answer that is being computed.
export function askedLine(parameters) {
  const given = LIMITS.filter((one) => ![null, undefined, ""].includes(parameters[one.keyword]));
  const limits = given.map((one) => `${one.called} ${one.least ? "≥" : "≤"} ${number(Number(parameters[one.keyword]))} ${one.unit}`);
  return [parameters.model, parameters.device ?? null, ...limits].filter(Boolean).join(", ") || "every stored row";
}

export function versionLine(answer) {
  const of = (name) => (answer.versions[name] ?? []).join(", ");
  return `Cost model ${of("family")}, serving model ${of("serving_model")}, formula version ${of("formula_version")}.`;
}
