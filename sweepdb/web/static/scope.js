// Which stored rows a page is about: model, workload, formats, engine and device, each choice among what the others leave.
import { h, fill } from "./dom.js";
import { asked, change } from "./address.js";
import { get } from "./api.js";

const FIELDS = [
  ["model", "Model"],
  ["workload", "Workload"],
  ["quantization", "Weights"],
  ["kv_cache_quantization", "KV cache"],
  ["serving_model", "Engine"],
  ["convention", "Convention"],
];

export class ScopeChoice {
  constructor(element, onChange) {
    this.element = element;
    this.onChange = onChange;
    this.rows = [];
  }

  async load() {
    const told = await get("scope");
    const names = told.columns.map((one) => one.name);
    this.rows = told.rows.map((row) => Object.fromEntries(names.map((name, place) => [name, row[place]])));
    this.show();
    return told;
  }

  // The values of every field: those of the address where rows have them, else of the newest rows.
  values() {
    const wanted = asked();
    let left = this.rows;
    const found = {};
    for (const [name] of FIELDS) {
      const known = new Set(left.map((row) => row[name]));
      const value = known.has(wanted[name]) ? wanted[name] : left[0]?.[name];
      found[name] = value;
      left = left.filter((row) => row[name] === value);
    }
    const devices = [...new Set(left.map((row) => row.device))].sort();
    found.device = devices.includes(wanted.device) ? wanted.device : null;
    const families = [...new Set(left.filter((row) => found.device === null || row.device === found.device).map((row) => row.family))].sort();
    found.family = families.includes(wanted.family) ? wanted.family : null;
    return { values: found, left, devices, families };
  }

  show() {
    const { values, left, devices, families } = this.values();
    let before = this.rows;
    const fields = FIELDS.map(([name, label]) => {
      const known = [...new Set(before.map((row) => row[name]))].sort();
      before = before.filter((row) => row[name] === values[name]);
      return known.length > 1 || name === "model" || name === "workload" ? this.field(name, label, known.map((one) => [one, one]), values[name]) : null;
    });
    fields.push(this.field("device", "Device", devices.length > 1 ? [["", `all ${devices.length}`], ...devices.map((one) => [one, one])] : [["", devices[0]]], values.device ?? ""));
    if (families.length > 1) fields.push(this.field("family", "Cost model", [["", "newest rows"], ...families.map((one) => [one, one])], values.family ?? ""));
    fill(this.element, fields, values.family === null ? this.families(left, values.device) : null);
    this.mostDevices = Math.max(1, ...left.map((row) => row.most_devices));
    this.phases = new Set(left.map((row) => row.phase));
  }

  // How many devices the rows are of.
  countDevices() {
    const { values, devices } = this.values();
    return values.device === null ? devices.length : 1;
  }

  // Rows of several cost models: which of them are shown, and a button for each other one.
  families(left, device) {
    const found = new Map(); // of each device its cost models, the newest rows first
    for (const row of left) if (device === null || row.device === device) found.set(row.device, new Set([...(found.get(row.device) ?? []), row.family]));
    const known = [...new Set([...found.values()].flatMap((one) => [...one]))].sort();
    if (known.length < 2) return null;
    const shown = new Map(); // of each cost model the devices whose newest rows are of it
    for (const [name, [newest]] of found) shown.set(newest, [...(shown.get(newest) ?? []), name]);
    const told = [...shown].map(([family, devices]) => `${family} of ${devices.join(", ")}`).join("; ");
    return h("p", { class: "small quiet note", id: "families" }, `Stored under ${known.length} cost models. The newest rows are shown: ${told}. `,
      known.map((family) => h("button", { type: "button", class: "plain", onclick: () => this.choose("family", family) }, `only ${family}`)));
  }

  choose(name, value) {
    change({ [name]: value, group: null }, { push: true });
    this.show();
    document.getElementById(name)?.focus(); // fields are made anew
    this.onChange();
  }

  field(name, label, options, value) {
    const select = h("select", { id: name, name, onchange: () => this.choose(name, select.value) }, options.map(([one, text]) => h("option", { value: one, selected: one === value }, text)));
    return h("label", { class: "field" }, h("span", {}, label), select);
  }

  // What narrows a question down. Measured rows follow no convention and have no cost model.
  parameters() {
    const { values } = this.values();
    return asked().rows === "measured" ? { ...values, convention: null, family: null } : { ...values };
  }
}
