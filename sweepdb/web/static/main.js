// Which page an address is. Every page but Explore is a list of reports with the parameters that it offers.
import { h, fill } from "./dom.js";
import { decide } from "./decide.js";
import { explore } from "./explore.js";
import { get } from "./api.js";
import { LIMITS } from "./limits.js";
import { explain, measured, sweeps } from "./listings.js";
import { failure } from "./parts.js";
import { reportPage } from "./report_page.js";
import { USUAL_LIMITS } from "./words.js";

const fieldsOf = (limits) => limits.map((one) => ({ name: one.keyword, label: `${one.slider.label}, ${one.unit}`, ...(one.slider.initial !== null && { placeholder: String(one.slider.initial) }) }));
const EVERYWHERE = LIMITS.filter((one) => one.everywhere);
const LIMIT_FIELDS = fieldsOf(EVERYWHERE);
const RESERVE = fieldsOf(LIMITS.filter((one) => one.reserve));
const ON_TIMES = fieldsOf(EVERYWHERE.filter((one) => one.arriving));
const VARIED = [...LIMITS.filter((one) => one.of_rows).map((one) => [one.name, one.called]), ["ttft,tpot", "TTFT and TPOT"], ["tpot,memory", "TPOT and memory"]];
const ROWS = { name: "rows", label: "Rows" };
const MODES = [["aggregated", "aggregated"], ["prefill", "prefill"], ["decode", "decode"]];

const PAGES = [
  ["", "Explore", explore],
  ["decide", "Decide", decide],
  ["pd", "Prefill:Decode", reportPage({
    title: "Disaggregated serving", intro: "How many instances of each pool carry the most within a budget of devices, and what aggregated instances make of the same devices.",
    fields: [{ name: "num_devices", label: "Devices" }, ...LIMIT_FIELDS, { name: "kv_transfer_gb_per_s", label: "KV transfer, GB/s" }, { name: "prefill_device", label: "Prefill on", placeholder: "any device" }, { name: "decode_device", label: "Decode on", placeholder: "any device" }], defaults: { num_devices: "8" }, first: USUAL_LIMITS,
    reports: [{ report: "deployments", title: "Disaggregated or aggregated" }, { report: "pd-counts", title: "Instances of the best pair" }, { report: "pd-ratio", title: "Best pairs of plans" }],
  })],
  ["goodput", "Goodput", reportPage({
    title: "Goodput", intro: "Requests that arrive: the share that meets the limits at each rate that was simulated, and the highest rate at which enough of them do.",
    fields: [...ON_TIMES, { name: "attainment", label: "Attainment", placeholder: "0.95" }, { name: "mode", label: "Phase", choices: MODES }], first: USUAL_LIMITS,
    reports: [{ report: "best", title: "Highest rates", fixed: { by: "goodput" } }, { report: "attainment", title: "Share of requests within the limits" }],
  })],
  ["sensitivity", "Sensitivity", reportPage({
    title: "Sensitivity", intro: "The best throughput as a function of one limit or two: where the winner changes, and what one more millisecond buys.",
    fields: [{ name: "vary", label: "Limit that varies", choices: VARIED }, ...LIMIT_FIELDS, { name: "num_devices", label: "Devices" }, { name: "mode", label: "Phase", choices: MODES }, ROWS], defaults: { vary: "tpot" },
    reports: [{ report: "sensitivity" }],
  })],
  ["curves", "Curves", reportPage({
    title: "Curves", intro: "Throughput against concurrency for every plan, whatever its times; rows that do not fit are left out.",
    fields: [...RESERVE, { name: "mode", label: "Phase", choices: MODES }, ROWS],
    reports: [{ report: "curve" }],
  })],
  ["why", "Why", reportPage({
    title: "Why one beats the other", intro: "Two stored rows side by side: which limits each meets, and where their steps spend their time.",
    fields: [{ name: "probes", label: "Two probes, with a comma", placeholder: "a1b2c3d4:1,e5f6a7b8:18" }, ...ON_TIMES], scoped: false,
    needs: (wanted) => (/^[^,]+,[^,]+$/.test(wanted.probes ?? "") ? null : "Name two probes; tables of other pages have them."),
    reports: [{ report: "why" }],
  })],
  ["explain", "Explain", explain],
  ["coverage", "Coverage", reportPage({ title: "Coverage", intro: "What is stored, how densely, and with how many failures.", fields: [], scoped: false, reports: [{ report: "coverage" }] })],
  ["diff", "Diff", reportPage({
    title: "What changed between two sweeps", intro: "The same subjects in two sweeps, changed winners first.",
    fields: [{ name: "sweeps", label: "Two sweeps, with a comma" }, ROWS], scoped: false,
    needs: (wanted) => (/^[^,]+,[^,]+$/.test(wanted.sweeps ?? "") ? null : "Name two sweeps; the page Sweeps lists them."),
    reports: [{ report: "diff", fixed: { top: 500 } }],
  })],
  ["measured", "Measured", measured],
  ["sweeps", "Sweeps", sweeps],
];

async function start() {
  const here = location.pathname.replaceAll("/", "");
  const [, title, page] = PAGES.find(([path]) => path === here) ?? PAGES[0];
  document.title = `${title} - sweepdb`;
  fill(document.getElementById("nav"), PAGES.map(([path, name]) => h("a", { href: `/${path}${kept(path)}`, "aria-current": path === here ? "page" : null }, name)));
  centre(document.getElementById("nav")); // a narrow screen shows a few
  const main = document.getElementById("main");
  get("state").then((told) => { Object.assign(document.getElementById("store"), { textContent: told.store, title: told.store }); }).catch(() => null);
  try {
    await page(main);
  } catch (error) {
    fill(main, failure(error));
    document.body.dataset.seq = String(Number(document.body.dataset.seq) + 1);
  }
}

// Not by scrollIntoView: some browsers begin a Tab there.
function centre(nav) {
  const current = nav.querySelector("[aria-current]")?.getBoundingClientRect(), all = nav.getBoundingClientRect();
  if (current) nav.scrollLeft += current.left + current.width / 2 - all.left - all.width / 2;
}

// The model and what else narrows rows down go along to another page.
function kept(path) {
  if (["why", "explain", "coverage", "diff", "measured", "sweeps"].includes(path)) return "";
  const now = new URLSearchParams(location.search);
  const taken = ["model", "workload", "device", "serving_model", "family", "convention", "quantization", "kv_cache_quantization", ...EVERYWHERE.map((one) => one.keyword)];
  const text = new URLSearchParams([...now].filter(([name]) => taken.includes(name))).toString();
  return text ? `?${text}` : "";
}

start();
