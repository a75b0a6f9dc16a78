// Elements in a line each. Attributes named `on...` are listeners; null children are left out.

export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((one) => one !== null && one !== undefined));
  return made;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((one) => one !== null && one !== undefined));
  return element;
}

const DIGITS = 4;
const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
const DECIMAL = /^-?\d+\.\d+(e[-+]?\d+)?$/;

// A number as a person reads it: four digits, thousands apart, nothing for what is missing.
export function number(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string" && DECIMAL.test(value)) return number(Number(value)); // a column of numbers and names
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return WHOLE.format(value);
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential(2);
  return SHORT.format(Number(value.toPrecision(Math.max(DIGITS, Math.ceil(Math.log10(Math.abs(value) + 1))))));
}
