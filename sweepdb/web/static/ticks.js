// Two rows that a reader ticks, in any tables of a page, and the way to what tells them apart.
import { fill, h } from "./dom.js";

const MOST = 2;
const picked = [];
const bar = h("div", { id: "compare", class: "compare", role: "status", hidden: true });

// The box of a row; a third row takes the place of the first.
export function tick(probe) {
  if (typeof probe !== "string") return null;
  return h("input", { type: "checkbox", "data-probe": probe, "aria-label": `compare ${probe}`, checked: picked.includes(probe), onchange: (event) => choose(probe, event.target.checked) });
}

function choose(probe, isOn) {
  if (isOn) picked.push(probe);
  else picked.splice(picked.indexOf(probe), 1);
  while (picked.length > MOST) picked.shift();
  for (const box of document.querySelectorAll("input[data-probe]")) box.checked = picked.includes(box.dataset.probe);
  show();
}

function show() {
  if (!bar.isConnected) document.body.append(bar);
  bar.hidden = !picked.length;
  const both = picked.join(",");
  fill(bar, picked.length < MOST ? `${both}: tick another row to compare.` : h("a", { href: `/why?probes=${both}` }, `Compare ${picked.join(" and ")}`),
    picked.length < MOST ? null : h("a", { href: `/explain?probe=${both}` }, "operator by operator"),
    h("button", { type: "button", class: "plain", onclick: () => { picked.length = 0; for (const box of document.querySelectorAll("input[data-probe]")) box.checked = false; show(); } }, "clear"));
}
