// Pictures: Vega-Lite specifications of the server, drawn by the Vega that it serves. No text is ever evaluated as code.
import { number } from "./dom.js";
import { shortened } from "./words.js";

const STYLE = {
  ast: true,
  actions: false,
  defaultStyle: false,
};
const COLOURS = {
  light: ["#1f62b5", "#c2571a", "#2f8a4c", "#8a4bb0", "#a8323e", "#6b6f1d", "#0f8a96", "#b0417f", "#5b6670", "#9a6b00", "#3d3f9e", "#5aa02c"],
  dark: ["#6fb1ff", "#ffa15c", "#6fd08c", "#cf9cf0", "#ff8b94", "#d3d86a", "#5fd6e0", "#f29ac8", "#a9b4be", "#e8bd52", "#9fa2ff", "#a6dd7c"],
};
const MANY = 400; // rows, from which on a picture is a bitmap: elements of their own cost twice as much to move
const BAR = 22;
const CELL = 40; // of a heat map, whose numbers are told by colour
const NARROW = 480;
const SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"; // a name; nothing is loaded from it
let bundle = null;

function vega() {
  bundle ??= import("../vega.js");
  return bundle.then(() => window.vegaEmbed);
}

export function warm() {
  vega();
}

export function isDark() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

// The specification of one group among several, with the page's width and colours.
export function fitted(spec, { group = null, height = 340, title = false, plans = {} } = {}) {
  const { vconcat, ...outer } = spec;
  const mineOf = vconcat?.find((one) => one.title === group) ?? vconcat?.[0]; // measured rows have layers of their own
  const inner = vconcat ? { ...outer, ...mineOf, transform: (mineOf.transform ?? []).slice(1) } : { ...outer };
  if (!title) delete inner.title;
  const values = spec.data.values;
  const mine = group === null ? values : values.filter((row) => row.group === group);
  inner.data = { name: "rows", values: mine.map((row) => withShortPlans(row, plans)) };
  inner.width = "container";
  inner.background = "transparent";
  const lies = inner.height === undefined; // bars or cells: as high as it has rows
  inner.height = lies ? heightOf(inner, mine) : height;
  inner.autosize = { type: lies ? "fit-x" : "fit", contains: "padding" };
  const ink = isDark() ? "#b8c2cc" : "#4a545e";
  inner.config = {
    ...spec.config,
    aria: false, // of each mark: a picture is one image to a reader, and a table beside it says the rest
    font: "system-ui, sans-serif",
    axis: { gridColor: "#7676764d", domainColor: "#767676", tickColor: "#767676", labelSeparation: 6, ...spec.config?.axis, labelColor: ink, titleColor: ink, labelFontSize: 11, titleFontSize: 12, titleFontWeight: "normal", titlePadding: 8 },
    legend: { symbolOpacity: 1, labelColor: ink, titleColor: ink, orient: "top", titleFontWeight: "normal", symbolLimit: 12, columns: innerWidth < NARROW ? 2 : 4, ...(innerWidth < NARROW && { layout: { top: { direction: "vertical" } } }) },
    range: { category: COLOURS[isDark() ? "dark" : "light"] },
    view: { stroke: null },
  };
  return inner;
}

// Rows of bars in a picture, in pixels: Vega-Lite grumbles when it has to count them itself.
function heightOf(spec, rows) {
  const { field } = spec.encoding.y;
  const named = rows.filter((row) => row.section === undefined || row.section === "split");
  const bars = new Set(named.map((row, place) => row[field] ?? place)).size;
  return Math.max(1, bars) * (spec.encoding.yOffset ? 2 : 1) * ((spec.layer?.[0] ?? spec).mark === "rect" ? CELL : BAR);
}

// Plans as the tables beside a picture write them, by themselves or within a deployment's name.
function withShortPlans(row, plans) {
  const labels = Object.keys(plans);
  if (!labels.length) return row;
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, typeof value === "string" && /plan$|^deployment$|^label$/.test(name) ? shortened(value, plans) : value]));
}

// A layer whose marks carry their row: the text of a tooltip is made when somebody looks at one. Vega would make the text
// of every mark whenever rows change, and interprets what it computes.
function withRows(layer, lists) {
  const { tooltip, ...encoding } = layer.encoding ?? {};
  if (!Array.isArray(tooltip) || tooltip.some((one) => Object.keys(one).some((key) => key !== "field" && key !== "title"))) return layer;
  lists.push(tooltip);
  const mark = typeof layer.mark === "string" ? { type: layer.mark } : layer.mark;
  return { ...layer, encoding, mark: { ...mark, tooltip: { content: "data" } } };
}

function tooltipText(lists, row, safe) {
  const list = lists.find((one) => one.some(({ field }) => field in row)) ?? Object.keys(row).map((field) => ({ field }));
  const lines = list.map(({ field, title }) => `<tr><td class="key">${safe(title ?? field)}</td><td class="value">${safe(number(row[field]))}</td></tr>`);
  return `<table><tbody>${lines.join("")}</tbody></table>`;
}

// Of the rows of each series those that stand apart from the one before, by a share of the picture; and its last.
export function apart(rows, { x, y, series }, share) {
  const range = (name) => Math.max(...rows.map((row) => row[name])) - Math.min(...rows.map((row) => row[name])) || 1;
  const [wide, high] = [range(x) * share, range(y) * share];
  const before = new Map();
  const kept = new Set();
  for (const row of [...rows].sort((one, other) => one[x] - other[x])) {
    const key = series.map((name) => row[name]).join();
    const { shown, last } = before.get(key) ?? {};
    const far = !shown || Math.abs(row[x] - shown[x]) >= wide || Math.abs(row[y] - shown[y]) >= high;
    if (!far && last !== shown) kept.delete(last);
    kept.add(row);
    before.set(key, { shown: far ? row : shown, last: row });
  }
  return rows.filter((row) => kept.has(row));
}

// Draw into an element; only rows are exchanged where the picture is the one that is there.
export class Picture {
  constructor(element) {
    this.element = element;
    this.view = null;
    this.shape = "";
  }

  async show(spec, told) {
    const { data, ...rest } = spec;
    const renderer = data.values.length < MANY ? "svg" : "canvas";
    const shape = JSON.stringify({ ...rest, renderer, dark: isDark() });
    if (this.view && shape === this.shape) {
      this.view.data("rows", data.values.map((row) => ({ ...row })));
      await this.view.runAsync();
    } else {
      const embed = await vega();
      this.view?.finalize();
      const lists = [];
      const layered = spec.layer ? { ...spec, layer: spec.layer.map((one) => withRows(one, lists)) } : withRows(spec, lists);
      const tooltip = { disableDefaultStyle: true, formatTooltip: (row, safe) => (typeof row === "object" && lists.length ? tooltipText(lists, row, safe) : safe(row)) };
      const made = await embed(this.element, { ...layered, $schema: SCHEMA }, { ...STYLE, tooltip, renderer });
      this.view = made.view;
      this.shape = shape;
    }
    const drawn = this.element.querySelector("svg, canvas");
    drawn?.setAttribute("role", "img");
    drawn?.setAttribute("aria-label", told);
  }

  clear() {
    this.view?.finalize();
    this.view = null;
    this.shape = "";
    this.element.replaceChildren();
  }
}
