// Pages over rows that are no answer of a report: operators of a step, measured points, sweeps.
import { h, fill, number } from "./dom.js";
import { asked, change, queryOf } from "./address.js";
import { get } from "./api.js";
import { Picture, fitted, warm } from "./draw.js";
import { Moment, copied, drawn, failure } from "./parts.js";
import { folding, objects, table } from "./table.js";
import { typed } from "./words.js";

const MOST_SHOWN = 25;
const LONGEST = 12; // operators of a picture
const SECOND = 19; // letters of a time without its fractions

// What gives a table again: its statement, the command, and other forms of it.
function forms(path, parameters, told, { picture = false, more = [] } = {}) {
  const query = queryOf(parameters);
  const at = (form) => `/api/v1/${path}${form}${query ? `?${query}` : ""}`;
  const named = path.split("/")[0];
  return h("div", { class: "tools" },
    h("p", { class: "command" }, h("code", {}, typed(told.command)), " ", copied(typed(told.command))),
    h("p", { class: "links" },
      h("a", { href: at(".csv"), download: `${named}.csv` }, "CSV"), " ", h("a", { href: at("") }, "JSON"), " ",
      picture ? h("a", { href: at(".svg"), download: `${named}.svg` }, "SVG") : null, " ",
      more, " ", h("a", { href: location.href }, "link to this page")),
    h("details", {}, h("summary", {}, "SQL"), h("pre", {}, told.sql)));
}

// Bars of the longest operators of a step, or of those that differ most between two.
function operatorBars(rows, isPair, kinds) {
  const values = rows.slice(0, LONGEST);
  const named = { y: { field: "operator", type: "nominal", title: "", sort: null, axis: { labelLimit: 260 } } };
  if (!isPair) {
    return { config: {}, data: { values }, mark: "bar", encoding: { ...named,
      x: { field: "time_ms", type: "quantitative", title: "ms" }, color: { field: "kind", type: "nominal", title: "kind", scale: { domain: kinds }, legend: null },
      tooltip: ["operator", "kind", "count", "time_ms", "bound", "share_percent"].map((field) => ({ field })) } };
  }
  return { config: {}, data: { values }, mark: "bar",
    transform: [{ calculate: "datum.a_ms", as: "first probe" }, { calculate: "datum.b_ms", as: "second probe" }, { fold: ["first probe", "second probe"], as: ["side", "ms"] }],
    encoding: { ...named, yOffset: { field: "side", type: "nominal" }, x: { field: "ms", type: "quantitative", title: "ms" }, color: { field: "side", type: "nominal", title: "probe" },
      tooltip: ["operator", "side", "ms", "difference_ms"].map((field) => ({ field })) } };
}

async function kindBars(rows) {
  const spec = await (await fetch("/static/pictures/explain.vl.json")).json();
  return { config: {}, ...spec, data: { values: rows } };
}

export async function explain(main) {
  warm();
  const field = h("input", { id: "probe", value: asked().probe ?? "", placeholder: "a1b2c3d4:175, or two with a comma", size: 30 });
  const body = h("div");
  const kinds = h("div", { class: "picture" });
  const ofKinds = h("section", { class: "report" }, h("h2", {}, "Kinds of operator"), kinds);
  const bars = h("div");
  const form = h("form", { class: "fields row", onsubmit: (event) => { event.preventDefault(); change({ probe: field.value.trim() }, { push: true }); show(); } },
    h("label", { class: "field" }, h("span", {}, "Probe"), field), h("button", { type: "submit" }, "Explain"));
  fill(main, h("h1", {}, "Explain a step"), h("p", { class: "intro" }, "A stored row, operator by operator: what its prefill and decode steps spend their time on, and what bounds each."), form, ofKinds, bars, body);
  const picture = new Picture(kinds);
  let drawnBars = [];

  function clear() {
    ofKinds.hidden = true;
    for (const one of [picture, ...drawnBars]) one.clear();
    drawnBars = [];
    fill(bars);
  }

  async function barsOf(rows, isPair) {
    for (const one of drawnBars) one.clear();
    drawnBars = [];
    fill(bars);
    const known = [...new Set(rows.map((row) => row.kind))].sort(); // a kind has one colour in all of them
    for (const step of [...new Set(rows.map((row) => row.step))]) {
      const canvas = h("div", { class: "picture" });
      const title = isPair ? `${step} step: operators that differ most` : `${step} step: the longest operators`;
      bars.append(h("section", { class: "report" }, h("h2", {}, title[0].toUpperCase() + title.slice(1)), canvas));
      const one = new Picture(canvas);
      drawnBars.push(one);
      await one.show(fitted(operatorBars(rows.filter((row) => row.step === step), isPair, known)), title);
    }
  }

  async function show() {
    const probe = asked().probe?.replaceAll(" ", "");
    if (!probe) { clear(); fill(body, h("p", { class: "quiet" }, "Take a probe from a table of another page.")); drawn(); return; }
    try {
      const path = `explain/${encodeURIComponent(probe)}`;
      const told = await get(path);
      const rows = objects(told);
      const isPair = !told.columns.some((one) => one.name === "time_ms");
      ofKinds.hidden = isPair;
      if (isPair) picture.clear();
      else await picture.show(fitted(await kindBars(rows)), "Time of each kind of operator, step by step");
      await barsOf(rows, isPair);
      const all = probe.split(",").map((one) => h("a", { href: `/api/v1/probe/${encodeURIComponent(one)}` }, `every column of ${one}`));
      fill(body, told.headline.map((line) => h("p", {}, line)),
        table(told, rows, { caption: isPair ? "Operators, the largest difference first" : "Operators, the longest first", explain: false }),
        forms(path, {}, told, { picture: true, more: all.flatMap((one) => [one, " "]) }));
    } catch (error) { clear(); fill(body, failure(error)); }
    drawn();
  }
  window.addEventListener("popstate", () => { field.value = asked().probe ?? ""; show(); });
  await show();
}

export async function measured(main) {
  warm();
  const canvas = h("div", { class: "picture" });
  const body = h("div");
  const filter = h("select", { id: "metric", onchange: () => { change({ metric: filter.value }, { push: true }); show(); } });
  fill(main, h("h1", {}, "Predicted against measured"), h("p", { class: "intro" }, "Every measured point of this store with what was predicted of it, by a fit that never saw its pair of device and model. On the solid line both are equal; the dashed lines are 20 % off."),
    h("div", { class: "fields row" }, h("label", { class: "field" }, h("span", {}, "Metric"), filter)), h("figure", {}, canvas), body);
  const picture = new Picture(canvas);
  const figure = canvas.parentElement;
  const moment = new Moment(() => load());
  let told = null;
  let rows = [];

  async function load() {
    told = await get("measured");
    moment.admits(told);
    rows = objects(told).filter((row) => row.measured > 0 && row.predicted > 0);
    await show();
  }

  async function show() {
    const metrics = [...new Set(rows.map((row) => row.metric))].sort();
    const first = metrics.find((one) => one === "output_tokens_per_s") ?? metrics[0];
    const metric = metrics.includes(asked().metric) ? asked().metric : first;
    fill(filter, metrics.map((one) => h("option", { value: one, selected: one === metric }, one.replaceAll("_per_s", "/s").replaceAll("_", " "))));
    const mine = rows.filter((row) => row.metric === metric);
    figure.hidden = !mine.length;
    if (!mine.length) fill(body, h("p", { class: "quiet" }, "No point of this store was compared yet: sweepdb measurements import FILE, then sweepdb validate."));
    else {
      await picture.show(fitted(await get("measured.vl", { metric }), { height: 420 }), "Predicted over measured values, both logarithmic");
      const off = mine.map((row) => Math.abs(row.signed_error_percent)).sort((a, b) => a - b);
      fill(body, h("p", { class: "sentence" }, `${number(mine.length)} comparisons: half of them within ${number(off[Math.floor(off.length / 2)])} %, nine of ten within ${number(off[Math.floor(off.length * 0.9)])} %.`),
        folding(told, mine, { most: MOST_SHOWN, columns: ["model", "device", "engine", "mode", "concurrency", "measured", "predicted", "signed_error_percent", "knowledge", "probe", "source"], caption: `Comparisons of ${metric}` }),
        forms("measured", { metric }, told, { picture: true }));
    }
    drawn();
  }
  window.addEventListener("popstate", () => show());
  await load();
}

export async function sweeps(main) {
  warm();
  const canvas = h("div", { class: "picture" });
  const figure = h("figure", { class: "low" }, canvas);
  const body = h("div");
  fill(main, h("h1", {}, "Sweeps"), h("p", { class: "intro" }, "What was asked for, the newest first. Two of them are compared on the page Diff."), figure, body);
  const picture = new Picture(canvas);
  const moment = new Moment(() => show());

  async function show() {
    const told = await get("sweeps");
    moment.admits(told);
    const rows = objects(told).map((row) => ({ ...row, started_at: row.started_at?.slice(0, SECOND).replace("T", " ") }));
    figure.hidden = !rows.length;
    if (rows.length) await picture.show(fitted(await get("sweeps.vl")), "Probes that each sweep stored, and those that were there already");
    const requests = rows.filter((row) => row.kind === "request" && row.status === "finished" && !row.voided);
    fill(body, folding(told, rows, { most: MOST_SHOWN, columns: ["key", "models", "devices", "label", "kind", "started_at", "status", "probes_stored", "probes_known", "scenarios_failed", "voided"], caption: "Sweeps", explain: false }),
      requests.length > 1 ? h("p", {}, h("a", { href: `/diff?sweeps=${requests[1].key},${requests[0].key}` }, "Compare the newest two requests")) : null,
      forms("sweeps", {}, told, { picture: rows.length > 0 }));
    drawn();
  }
  await show();
}
