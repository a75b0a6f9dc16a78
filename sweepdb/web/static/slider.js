// A limit that is dragged, typed, or lifted. Its exact value stands in the address; the knob is at the nearest place.
import { fill, h, number } from "./dom.js";

const STEPS = 200;

export class Slider {
  // kind: log (the right end is no limit), linear (low..high) or stops (a list, then no limit)
  constructor({ name, label, unit, kind, low, high, stops, none, initial = null, help }, onMove) {
    Object.assign(this, { name, label, unit, kind, low, high, stops, none, initial, onMove });
    const most = kind === "stops" ? stops.length : STEPS;
    this.range = h("input", { type: "range", id: `${name}_range`, min: 0, max: most, step: 1, "aria-label": label, title: help,
      oninput: () => this.moved(this.at(Number(this.range.value))) });
    this.box = h("input", { type: "number", id: name, min: 0, step: "any", placeholder: none ?? "", "aria-label": `${label}, ${unit}`,
      onchange: () => this.typed() });
    this.wrong = h("p", { class: "wrong", role: "alert", id: `${name}_wrong`, hidden: true });
    this.element = h("div", { class: "slider" },
      h("label", { for: `${name}_range` }, label), h("span", { class: "value" }, this.box, h("span", { class: "unit" }, unit)), this.range, this.wrong);
    this.value = undefined;
  }

  at(place) {
    if (this.kind === "stops") return place >= this.stops.length ? null : this.stops[place];
    if (this.kind === "linear") return Number((this.low + ((this.high - this.low) * place) / STEPS).toPrecision(4));
    if (place >= STEPS) return null;
    return Number((this.low * (this.high / this.low) ** (place / (STEPS - 1))).toPrecision(3));
  }

  placeOf(value) {
    if (value === null) return this.kind === "linear" ? 0 : Number(this.range.max);
    if (this.kind === "stops") {
      const found = this.stops.findIndex((one) => one >= value);
      return found < 0 ? this.stops.length : found;
    }
    const share = this.kind === "linear" ? (value - this.low) / (this.high - this.low) : Math.log(value / this.low) / Math.log(this.high / this.low);
    return Math.round(Math.min(1, Math.max(0, share)) * (this.kind === "linear" ? STEPS : STEPS - 1));
  }

  set(value) {
    this.value = value;
    this.range.value = String(this.placeOf(value));
    if (document.activeElement !== this.box) this.box.value = value === null ? "" : String(value);
    this.range.setAttribute("aria-valuetext", value === null ? this.none : `${number(value)} ${this.unit}`);
  }

  // A number that nobody can mean stays in its field, with what is wrong below; the answer stays as it is.
  typed() {
    const text = this.box.value;
    const told = wrongNumber(this.box);
    told ? showWrong(this.box, this.wrong, told) : this.moved(text === "" ? null : Number(text));
  }

  moved(value) {
    showWrong(this.box, this.wrong, null);
    this.set(value);
    this.onMove(this);
  }
}

// What is wrong with the number of a field, null where nothing is.
export function wrongNumber(box) {
  if (box.validity.badInput) return "This is no number.";
  if (box.value === "") return null;
  const value = Number(box.value);
  if (Number.isFinite(value) && value >= 0) return null;
  return `This must be a number above 0, not ${box.value}.`;
}

export function showWrong(box, line, told) {
  line.hidden = told === null;
  box.setAttribute("aria-invalid", String(told !== null));
  fill(line, told);
}
