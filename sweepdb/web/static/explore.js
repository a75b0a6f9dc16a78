// Explore: move a limit, and the frontier, the best plans and the sentence follow.
import { h, fill, number } from "./dom.js";
import { asked, change } from "./address.js";
import { get } from "./api.js";
import { latest } from "./asking.js";
import { LIMITS } from "./limits.js";
import { Picture, apart, fitted, warm } from "./draw.js";
import { Asking, Folded, Moment, drawn, failure, tools, trust } from "./parts.js";
import { ScopeChoice } from "./scope.js";
import { Slider } from "./slider.js";
import { objects, table } from "./table.js";
import { askedLine } from "./words.js";

const MOST_POINTS = 300; // of a frontier: one for each three pixels of the picture
const FEWEST_POINTS = 60; // of each of many frontiers, whose steps lie on each other
const APART = 0.01; // of the picture's width or height: nearer marks lie on each other
const TOP = 10;
const ROWS = ["predicted", "both", "measured"];
const HOUR_S = 3600;
const MILLION = 1e6;
const COLUMNS = ["rank", "rows", "device", "plan", "probe", "batch_size", "concurrency", "output_tokens_per_s", "output_tokens_per_s_per_device", "usd_per_million_tokens", "instances", "system_output_tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms", "memory_free_gib", "num_devices", "launchable"];
const SLIDERS = [
  ...LIMITS.filter((one) => one.slider).map((one) => ({
    name: one.keyword, unit: one.unit, none: String(one.slider.initial ?? "none"), ...one.slider,
  })),
  { name: "num_devices", label: "Devices at most", unit: "", kind: "stops", stops: [1, 2, 4, 8, 16, 32, 64, 128, 256], none: "any" },
  { name: "price", label: "Price of a device", unit: "$/h", kind: "linear", low: 0, high: 20, none: "none" },
];
const USUAL = LIMITS.filter((one) => one.slider?.usual).map((one) => [one.keyword, one.slider.usual]); // limits of a page that is opened without any
const BINDING = Object.fromEntries(LIMITS.map((one) => [one.name, one.keyword]));
const CALLED = Object.fromEntries(LIMITS.map((one) => [one.name, one.called]));

export async function explore(main) {
  warm();
  const fields = h("div", { class: "fields" });
  const kinds = h("div", { class: "fields" });
  const sliders = h("div", { class: "sliders" });
  const sentence = h("p", { class: "sentence", id: "sentence", "aria-live": "polite" });
  const about = h("div");
  const groups = h("div", { class: "groups" });
  const canvas = h("div", { class: "picture", id: "picture" });
  const legend = h("p", { class: "quiet small", id: "legend" });
  const figure = h("figure", {}, canvas, h("figcaption", {}, legend));
  const misses = h("div", { id: "misses" });
  const best = h("section", { "aria-label": "Best plans" });
  const below = h("div");
  const asking = new Asking(sentence, best, about, misses, figure, below);
  fill(main, h("h1", { class: "hidden" }, "Explore"), h("div", { class: "explore" },
    h("aside", { class: "controls", "aria-label": "Scope and limits" }, fields, kinds, sliders),
    h("div", { class: "answer" }, asking.line, sentence, groups, figure, misses, best, about, below)));

  const picture = new Picture(canvas);
  const twin = new Folded("twin");
  let measured = null;
  let anyMeasured = false;
  const moment = new Moment(() => refresh());
  const scope = new ScopeChoice(fields, () => { moment.forget(); refresh(); });
  const made = SLIDERS.map((one) => new Slider(one, (slider) => {
    change({ [slider.name]: slider.value === slider.initial ? null : slider.value });
    change({ limits: USUAL.some(([name]) => asked()[name]) ? null : "none" }); // a link without limits stays without
    if (slider.name === "price") redraw(); else refresh();
  }));
  fill(sliders, made.map((one) => one.element));

  function placeSliders() {
    const wanted = asked();
    for (const one of made) one.set(wanted[one.name] === undefined ? one.initial : Number(wanted[one.name]));
  }

  function limits() {
    const wanted = asked();
    return Object.fromEntries(made.filter((one) => one.name !== "price").map((one) => [one.name, wanted[one.name] ?? null]));
  }

  let shown = null;
  // The table first, since a frontier takes longer; until each is there the old one is greyed.
  const refresh = latest(async (isStale) => {
    const common = { ...scope.parameters(), ...limits(), rows: asked().rows ?? null };
    asking.begin(askedLine(common));
    try {
      const asks = { pareto: { ...common, by_device: scope.countDevices() > 1 || null, max_points: Math.max(FEWEST_POINTS, Math.min(MOST_POINTS, Math.floor(2 * MOST_POINTS / scope.countDevices()))) }, best: { ...common, top: TOP } };
      const drawing = (state) => get("answer/pareto", { ...asks.pareto, state, picture: "shape" }).catch((error) => withoutEndToEnd(error, asks, state));
      const beside = moment.state === null ? null : drawing(moment.state); // of the same moment, so both may be asked at once
      beside?.catch(() => null); // told where it is awaited
      const ranked = await get("answer/best", { ...asks.best, state: moment.wanted }).catch((error) => ({ failed: error }));
      if (!ranked.failed && !moment.admits(ranked)) return;
      let found; // in which group
      if (!isStale()) {
        found = { group: groupAsked(), any: rank(ranked, asks) };
        asking.done(sentence, best, about, misses);
      }
      const frontier = await (beside ?? drawing(moment.wanted));
      if (!moment.admits(frontier)) return;
      await draw(frontier, group(frontier));
      asking.done(figure);
      if (isStale()) return;
      shown = { frontier, ranked, asks };
      tell(group(frontier), found?.group === group(frontier) ? found.any : undefined);
      asking.done();
    } catch (error) {
      asking.done();
      shown = null;
      picture.clear();
      figure.hidden = true;
      fill(misses, failure(error));
      fill(sentence, "No answer.");
      fill(best);
      fill(about);
      fill(below);
      drawn();
    }
  });

  // Rows of formulas have no end-to-end time where serving is disaggregated: the frontier goes without that limit.
  async function withoutEndToEnd(error, asks, state) {
    if (error.status !== 400 || !asks.pareto.e2e_limit) throw error;
    asks.pareto = { ...asks.pareto, e2e_limit: null };
    const answer = await get("answer/pareto", { ...asks.pareto, state, picture: "shape" });
    answer.without = "Deployments of separate phases have no end-to-end time here: the picture is without that limit.";
    return answer;
  }

  // Predicted rows, measured ones or both, where something was measured.
  function rowsChoice() {
    const wanted = asked().rows ?? ROWS[0];
    const select = h("select", { id: "rows", onchange: () => { change({ rows: select.value === ROWS[0] ? null : select.value, group: null }, { push: true }); refresh(); } },
      ROWS.map((one) => h("option", { value: one, selected: one === wanted }, one)));
    fill(kinds, h("label", { class: "field" }, h("span", {}, "Rows"), select));
  }

  function groupAsked() {
    return Number(asked().group ?? 0);
  }

  function group(frontier) {
    const wanted = groupAsked();
    const count = frontier.groups.length;
    return wanted < count ? wanted : 0;
  }

  async function draw(frontier, number_) {
    const spec = frontier.picture;
    figure.hidden = !spec;
    if (!spec) { picture.clear(); return; }
    const many = frontier.groups.length > 1;
    const errors = bandsOf(frontier);
    const fit = fitted(spec, { group: many ? frontier.groups[number_] : null, height: 360 });
    const mine = objects(frontier).filter((row) => row.question_group === number_);
    fit.data.values = apart(mine, { x: "tokens_per_s_per_user", y: "output_tokens_per_s_per_device", series: ["frontier_of", "mode"] }, APART).map((row) => withBand(row, errors));
    const error = Math.max(0, ...errors.values());
    figure.hidden = !fit.data.values.length;
    if (figure.hidden) { picture.clear(); return; }
    const points = asked().rows ? [] : await measuredPoints(); // else they are rows of the answer
    const { layer, encoding, ...rest } = fit;
    const band = { mark: { type: "area", interpolate: "step-before", opacity: 0.14, tooltip: false }, encoding: { detail: { field: "mode" }, y: { field: "low", type: "quantitative", title: encoding.y.title }, y2: { field: "high" } } };
    const over = { data: { values: points }, mark: { type: "point", shape: "diamond", size: 70, strokeWidth: 1.6, color: "#c2185b", filled: false }, encoding: { x: { field: "user", type: "quantitative" }, y: { field: "device_rate", type: "quantitative" }, color: { value: "#d0306e" }, tooltip: [{ field: "source" }, { field: "concurrency" }, { field: "user" }, { field: "device_rate" }] } };
    await picture.show({ ...rest, encoding, layer: [...(error ? [band] : []), ...layer, ...(points.length ? [over] : [])] },
      "The frontier of tokens a second of one device over tokens a second of one user, as steps");
    const said = [
      "A step goes no further than a stored point: nothing is invented between them.",
      error ? `A band holds half of the values measured on others' servers: ${[...errors].filter(([, share]) => share).map(([device, share]) => `${device} ±${number(Math.round(100 * share))} %`).join(", ")}.` : null,
      points.length ? `Diamonds are measured (${points.length}).` : null,
      frontier.without ?? null,
    ];
    legend.textContent = said.filter(Boolean).join(" ");
  }

  // The median error of tokens/s of aggregated rows of each device; 0 where nobody measured near.
  function bandsOf(frontier) {
    const names = new Set(objects(frontier).map((row) => row.device));
    const of = (device, metric) => frontier.expected_error.find((one) => one.subject.includes(device) && one.metric.startsWith(metric) && one.servers !== "tuned");
    return new Map([...names].map((device) => [device, Math.min(0.9, ((of(device, "output_tokens_per_s") ?? of(device, "tpot"))?.median_ape_percent ?? 0) / 100)]));
  }

  function withBand(row, errors) {
    const error = row.rows === "measured" ? 0 : errors.get(row.device) ?? 0;
    return error ? { ...row, low: row.output_tokens_per_s_per_device / (1 + error), high: row.output_tokens_per_s_per_device / (1 - error) } : row;
  }

  async function measuredPoints() {
    measured ??= objects(await get("measured").catch(() => ({ columns: [], rows: [] })));
    const { model, device, workload } = scope.parameters();
    const [, input, output] = /^(\d+)\/(\d+)/.exec(workload ?? "") ?? [];
    const seen = new Set();
    return measured.filter((row) => row.model === model && (!device || row.device === device) && row.tpot_exclusive_ms && row.output_tokens_per_s && row.num_devices
      && (input === undefined || (near(row.input_length, input) && near(row.output_length, output)))
      && !seen.has(row.source) && seen.add(row.source))
      .map((row) => ({ source: row.source, concurrency: row.concurrency, user: 1000 / row.tpot_exclusive_ms, device_rate: row.output_tokens_per_s / row.num_devices }));
  }

  async function redraw() {
    if (shown === null) return;
    const number_ = group(shown.frontier);
    await draw(shown.frontier, number_);
    tell(number_);
  }

  // The sentence, the table and how far to trust them: of the first group until it is known how many there are.
  function rank(ranked, asks, number_ = groupAsked()) {
    const price = Number(asked().price ?? 0) || null;
    const found = ranked.failed ? [] : objects(ranked).filter((row) => row.question_group === number_);
    for (const row of found) row.usd_per_million_tokens = price === null ? null : (price / (row.output_tokens_per_s_per_device * HOUR_S)) * MILLION;
    const top = found[0];
    fill(sentence, top ? said(top, ranked.plans[top.plan] ?? top.plan, price) : ranked.failed ? "No ranking here." : "Nothing satisfies the limits.");
    fill(misses, top || ranked.failed ? (ranked.failed ? failure(ranked.failed) : null) : nothingFits(ranked, number_));
    fill(best, found.length ? table(ranked, found, { columns: COLUMNS, caption: "Best batch size of each plan, one instance, best first", id: "top" }) : null);
    fill(about, ranked.failed ? null : trust(ranked));
    fill(below, ranked.failed ? null : tools("best", asks.best, ranked, { picture: found.length > 0 }));
    return found.length > 0;
  }

  // All that stands beside the picture; `found` where the table is there already.
  function tell(number_, found) {
    const { frontier, ranked, asks } = shown;
    fill(groups, frontier.groups.length > 1 ? groupChoice(frontier, number_) : null);
    found ??= rank(ranked, asks, number_);
    if (ranked.failed) fill(about, trust(frontier));
    const points = objects(frontier).filter((row) => row.question_group === number_);
    twin.show(`The picture's ${points.length} points as a table`, () => table(frontier, points, { caption: "Points of the frontier" }));
    fill(below, ranked.failed ? null : tools("best", asks.best, ranked, { picture: found }), tools("pareto", asks.pareto, frontier, { picture: points.length > 0 }), points.length ? twin.element : null);
    drawn();
  }

  function said(top, plan, price) {
    const cost = price === null ? "" : `, $${number(top.usd_per_million_tokens)} a million tokens`;
    return [h("strong", {}, `${plan} on ${top.device}`), `: ${top.rows === "measured" ? "measured, " : ""}${number(top.concurrency)} users get `, h("strong", {}, `${number(top.output_tokens_per_s_per_device)} tokens/s per device`),
      `, TTFT ${number(top.ttft_ms)} ms, TPOT ${number(top.tpot_ms)} ms${cost}.`];
  }

  function nothingFits(ranked, number_) {
    const near_ = objects({ columns: ranked.nearest.columns, rows: ranked.nearest.rows }).filter((row) => row.question_group === number_);
    const first = near_.find((row) => row.relax_to !== null);
    if (!near_.length) return null;
    const slider = first && made.find((one) => one.name === BINDING[first.binding_limit]);
    const button = first && slider ? h("button", { type: "button", id: "relax", onclick: () => {
      change({ [slider.name]: first.relax_to });
      slider.set(Number(first.relax_to));
      slider.range.focus(); // the button goes with the answer
      refresh();
    } }, `Set ${CALLED[first.binding_limit]} to ${first.relax_to} ${slider.unit}`) : null;
    const then = first ? `${CALLED[first.binding_limit]} binds: at ${first.relax_to}, ${number(first.admitted_then)} stored ${first.admitted_then === 1 ? "row" : "rows"} would pass. ` : "None of these fits even with no memory kept free. ";
    return h("div", { class: "nothing" }, h("p", {}, then[0].toUpperCase() + then.slice(1), button), table({ ...ranked.nearest, plans: ranked.plans }, near_.slice(0, 5), { columns: ranked.nearest.shown, caption: "Nearest misses" }));
  }

  function groupChoice(frontier, number_) {
    const select = h("select", { id: "group", onchange: () => { change({ group: select.value }, { push: true }); redraw(); } },
      frontier.groups.map((text, place) => h("option", { value: place, selected: place === number_ }, text)));
    return h("label", { class: "field" }, h("span", {}, "Which of these"), select);
  }

  window.addEventListener("popstate", () => { scope.show(); if (anyMeasured) rowsChoice(); placeSliders(); refresh(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  if (!location.search) change(Object.fromEntries(USUAL));
  placeSliders();
  const stored = await scope.load();
  anyMeasured = stored.measured;
  if (anyMeasured && !stored.rows.length && !asked().rows) change({ rows: "measured" }); // nothing is predicted
  if (anyMeasured) rowsChoice();
  await refresh();
}

function near(value, wanted) {
  return value !== null && Math.abs(value - Number(wanted)) <= 0.1 * Number(wanted);
}
