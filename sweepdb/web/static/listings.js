// Pages over rows that are no answer of a report: operators of a step, measured points, sweeps.
import { h, fill, number } from "./dom.js";
import { asked, change } from "./address.js";
import { get } from "./api.js";
import { Picture, fitted, warm } from "./draw.js";
import { drawn, failure } from "./parts.js";
import { objects, table } from "./table.js";

const MOST_SHOWN = 25;

async function own(name, values) {
  const spec = await (await fetch(`/static/pictures/${name}.vl.json`)).json();
  return { config: {}, ...spec, data: { values } };
}

export async function explain(main) {
  warm();
  const field = h("input", { id: "probe", value: asked().probe ?? "", placeholder: "a1b2c3d4:175, or two with a comma", size: 30 });
  const body = h("div");
  const canvas = h("div", { class: "picture" });
  const form = h("form", { class: "fields row", onsubmit: (event) => { event.preventDefault(); change({ probe: field.value.trim() }, { push: true }); show(); } },
    h("label", { class: "field" }, h("span", {}, "Probe"), field), h("button", { type: "submit" }, "Explain"));
  fill(main, h("h1", {}, "Explain a step"), h("p", { class: "intro" }, "A stored row, operator by operator: what its prefill and decode steps spend their time on, and what bounds each."), form, canvas, body);
  const picture = new Picture(canvas);

  async function show() {
    const probe = asked().probe;
    if (!probe) { fill(body, h("p", { class: "quiet" }, "Take a probe from a table of another page.")); drawn(); return; }
    try {
      const told = await get(`explain/${encodeURIComponent(probe.replaceAll(" ", ""))}`);
      const rows = objects(told);
      const names = told.columns.map((one) => one.name);
      if (names.includes("time_ms")) await picture.show(fitted(await own("explain", rows), { height: 120 }), "Time of each kind of operator, step by step");
      else picture.clear();
      fill(body, told.headline.map((line) => h("p", {}, line)), table(told, rows, { caption: "Operators, the longest first", explain: false }),
        h("p", { class: "links" }, h("a", { href: `/api/v1/explain/${encodeURIComponent(probe)}` }, "JSON"), " ", h("a", { href: `/api/v1/probe/${encodeURIComponent(probe.split(",")[0])}` }, "every column of the row")));
    } catch (error) { picture.clear(); fill(body, failure(error)); }
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
    h("div", { class: "fields row" }, h("label", { class: "field" }, h("span", {}, "Metric"), filter)), canvas, body);
  const picture = new Picture(canvas);
  const told = await get("measured");
  const rows = objects(told).filter((row) => row.measured > 0 && row.predicted > 0);
  const metrics = [...new Set(rows.map((row) => row.metric))].sort();

  async function show() {
    const metric = metrics.includes(asked().metric) ? asked().metric : metrics[0];
    fill(filter, metrics.map((one) => h("option", { value: one, selected: one === metric }, one)));
    const mine = rows.filter((row) => row.metric === metric);
    if (!mine.length) fill(body, h("p", { class: "quiet" }, "No point of this store was compared yet: sweepdb measurements import FILE, then sweepdb validate."));
    else {
      const values = mine.flatMap((row) => [row.measured, row.predicted]);
      const spec = await own("measured", mine);
      const ends = [Math.min(...values), Math.max(...values)];
      for (const [layer, share] of [[1, 1], [2, 1.2], [3, 1 / 1.2]]) spec.layer[layer].data = { values: ends.map((end) => ({ measured: end, predicted: end * share })) };
      await picture.show(fitted(spec, { height: 420 }), "Predicted over measured values, both logarithmic");
      const off = mine.map((row) => Math.abs(row.signed_error_percent)).sort((a, b) => a - b);
      fill(body, h("p", { class: "sentence" }, `${number(mine.length)} comparisons: half of them within ${number(off[Math.floor(off.length / 2)])} %, nine of ten within ${number(off[Math.floor(off.length * 0.9)])} %.`),
        table(told, mine.slice(0, MOST_SHOWN), { columns: ["model", "device", "engine", "mode", "concurrency", "measured", "predicted", "signed_error_percent", "knowledge", "probe", "source"], caption: `Comparisons of ${metric}` }),
        h("details", {}, h("summary", {}, "SQL"), h("pre", {}, told.sql)));
    }
    drawn();
  }
  await show();
}

export async function sweeps(main) {
  fill(main, h("h1", {}, "Sweeps"), h("p", { class: "intro" }, "What was asked for, the newest first. Two of them are compared on the page Diff."));
  const told = await get("sweeps");
  const rows = objects(told);
  main.append(table(told, rows, { columns: ["key", "label", "kind", "started_at", "status", "probes_stored", "probes_known", "scenarios_failed", "voided"], caption: "Sweeps", explain: false }));
  if (rows.length > 1) main.append(h("p", {}, h("a", { href: `/diff?sweeps=${rows[1].key},${rows[0].key}` }, "Compare the newest two")));
  drawn();
}

