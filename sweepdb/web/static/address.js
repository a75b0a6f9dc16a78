// What a page shows stands in its address: limits, scope, everything that a link must bring back.

export function asked() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

// Changes to what is asked; an empty value is left out. A slider that moves replaces the entry of the history.
export function change(values, { push = false } = {}) {
  const parameters = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "") parameters.delete(name);
    else parameters.set(name, value);
  }
  const text = parameters.toString();
  history[push ? "pushState" : "replaceState"](null, "", location.pathname + (text ? `?${text}` : ""));
}

export function queryOf(values) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") parameters.set(name, value);
  }
  return parameters.toString();
}
