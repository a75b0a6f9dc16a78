// Decide: the answer now, how sure it is, and the run worth most; measured points in the band of what is expected.
import { h, fill, number } from "./dom.js";
import { asked, change, queryOf } from "./address.js";
import { get } from "./api.js";
import { latest } from "./asking.js";
import { LIMITS } from "./limits.js";
import { Picture, fitted, warm } from "./draw.js";
import { Asking, Moment, drawn, failure, kept } from "./parts.js";
import { ScopeChoice } from "./scope.js";
import { table } from "./table.js";
import { typed, USUAL_LIMITS } from "./words.js";

const FIELDS = [
  { name: "num_devices", label: "Devices" }, { name: "concurrency", label: "or users to serve" }, { name: "target_rate", label: "or requests/s" },
  ...LIMITS.filter((one) => one.everywhere && one.arriving).map((one) => ({ name: one.keyword, label: `${one.slider.label}, ${one.unit}` })),
  { name: "gain", label: "Least gain", placeholder: "0.02" },
];
const USUAL = { num_devices: "8", ...USUAL_LIMITS };
const METRICS = [["tpot_ms", "TPOT", "tpot_limit"], ["ttft_ms", "TTFT", "ttft_limit"]];
const COLUMNS = ["device", "plan", "instances", "num_devices", "concurrency", "requests_per_s", "output_tokens_per_s", "ttft_ms", "tpot_ms", "holds", "stands", "probe"];

const CAPTION = "A band holds four of five runs, a line what they are expected to be. Dotted: the bare prediction; a diamond: a run of yours; dashed: the limit.";

// Commands between backticks stand out.
const coded = (text) => text.split("`").map((part, place) => (place % 2 ? h("code", {}, part) : part));

// One server's times over its users: the band of what a run would measure, what is predicted, what was measured, the limit.
function banded(rows, name, limit) {
  const x = { field: "concurrency", type: "quantitative", title: "concurrency", scale: { type: "log", nice: false } };
  const y = (field) => ({ field, type: "quantitative", title: `${name}, ms`, scale: { type: "log", nice: false } });
  const told = ["plan", "concurrency", "low_ms", "expected_ms", "high_ms", "measured_ms"].map((field) => ({ field }));
  const color = { field: "plan", type: "nominal", title: "plan" };
  return { config: {}, height: 340, data: { values: rows }, encoding: { x, color }, layer: [
    { mark: { type: "area", opacity: 0.18, tooltip: false }, encoding: { y: y("low_ms"), y2: { field: "high_ms" } } },
    { mark: { type: "line", tooltip: false }, encoding: { y: y("expected_ms") } },
    { mark: { type: "line", strokeDash: [3, 3], opacity: 0.6, tooltip: false }, encoding: { y: y("predicted_ms") } },
    { mark: { type: "point", opacity: 0 }, encoding: { y: y("expected_ms"), tooltip: told } },
    ...(rows.some((row) => row.measured_ms !== null) ? [{ transform: [{ filter: "datum.measured_ms !== null" }], mark: { type: "point", shape: "diamond", size: 90, filled: true }, encoding: { y: y("measured_ms"), tooltip: told } }] : []),
    ...(limit ? [{ transform: [{ calculate: String(limit), as: "limit" }], mark: { type: "line", strokeDash: [6, 4], color: "#767676", tooltip: false }, encoding: { y: y("limit"), color: { value: "#767676" } } }] : []),
  ] };
}

export async function decide(main) {
  warm();
  const choice = h("div", { class: "fields row" });
  const form = h("form", { class: "fields row", onsubmit: (event) => event.preventDefault() });
  const said = h("div", { id: "sentence", "aria-live": "polite" });
  const next = h("div", { id: "next" });
  const figures = METRICS.map(([metric, name, limit]) => ({ metric, name, limit, canvas: h("div", { class: "picture" }) }));
  const rows = h("div");
  const asking = new Asking(said, next, rows, ...figures.map((one) => one.canvas));
  fill(main, h("h1", {}, "Decide by a few runs"), h("p", { class: "intro" }, "What to deploy on what is known now, and the run that is worth most for this decision. Import its result, and the bands narrow."),
    choice, form, asking.line, said, next, figures.map((one) => h("section", { class: "report" }, h("h2", {}, `${one.name} of the best servers`), h("figure", {}, one.canvas, h("figcaption", {}, h("p", {}, CAPTION))))), rows);
  for (const one of figures) one.picture = new Picture(one.canvas);
  if (!location.search) change(USUAL);
  fill(form, FIELDS.map(({ name, label, placeholder = "" }) => h("label", { class: "field" }, h("span", {}, label),
    h("input", { id: name, type: "number", min: 0, step: "any", placeholder, value: asked()[name] ?? "", onchange: (event) => { change({ [name]: event.target.value }, { push: true }); refresh(); } }))));
  const moment = new Moment(() => refresh());
  const scope = new ScopeChoice(choice, () => { moment.forget(); refresh(); });

  const parameters = () => ({ ...scope.parameters(), ...Object.fromEntries(FIELDS.map(({ name }) => [name, asked()[name] ?? null])) });

  // The script of the next run, for the machine with the devices.
  function scriptButton() {
    const button = h("button", { type: "button", id: "script", onclick: async () => {
      const answer = await fetch(`/api/v1/decide.sh?${queryOf(parameters())}`);
      const copied = answer.ok && await kept(await answer.text());
      button.textContent = copied ? "copied: run it where the devices are" : answer.ok ? "this browser copies nothing here: open it" : "there is no script of this run";
    } }, "Copy the next run's script");
    return [button, " ", h("a", { href: `/api/v1/decide.sh?${queryOf(parameters())}` }, "open it")];
  }

  const refresh = latest(async () => {
    asking.begin("what to deploy, and what to measure");
    try {
      const told = await get("decide", parameters());
      moment.state = told.state;
      fill(said, told.sentences.map((line) => h("p", { class: "sentence" }, coded(typed(line)))));
      const start = told.next_starts[0];
      fill(next, start ? [h("ul", {}, told.outcomes.map((line) => h("li", {}, line))), ...scriptButton()] : null);
      for (const one of figures) {
        const mine = told.bands.filter((row) => row.metric === one.metric);
        one.canvas.closest("section").hidden = !mine.length;
        if (mine.length) await one.picture.show(fitted(banded(mine, one.name, Number(asked()[one.limit]) || null), { plans: told.plans }), `${one.name} over concurrency: bands hold four of five runs, diamonds are measured`);
        else one.picture.clear();
      }
      const columns = COLUMNS.map((name) => ({ name, unit: "none", meaning: "" }));
      fill(rows, told.rows.length ? table({ columns, plans: told.plans, rows: [] }, told.rows.map((row) => ({ ...row, holds: `${number(100 * row.holds)} %` })), { columns: COLUMNS, caption: "The best load of each server" }) : null);
    } catch (error) {
      fill(said, failure(error));
      fill(next);
      fill(rows);
      for (const one of figures) { one.picture.clear(); one.canvas.closest("section").hidden = true; }
    }
    asking.done();
    drawn();
  });
  window.addEventListener("popstate", () => { scope.show(); refresh(); });
  await scope.load();
  await refresh();
}
