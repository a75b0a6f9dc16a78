// What moves in a report. Every answer was asked of the store when the file was written: sliders choose among them, and
// prices are multiplied out. Nothing is evaluated here.
"use strict";
const held = JSON.parse(document.getElementById("data").textContent);
const at = (name) => document.getElementById(name);
const digits = (value) => {
  if (value === null) return "\u2013";
  const size = Math.abs(value);
  const places = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
};
const told = (slider, limit) => (limit === null ? "no limit" : slider.name === "devices" ? limit.toLocaleString("en-US") : `${limit.toLocaleString("en-US")} ms`);
let view = null;

function draw() {
  if (!held.picture) return;
  const spec = { ...held.picture, width: "container", autosize: { type: "fit-x", contains: "padding" } };
  delete spec.$schema;
  const still = at("still");
  const options = { mode: "vega-lite", ast: true, renderer: "svg", actions: false, defaultStyle: false, logLevel: 1 };
  window.vegaEmbed(at("live"), spec, options)
    .then((done) => {
      view = done.view;
      still.hidden = true;
      still.style.display = "none";
      move();
      document.body.dataset.drawn = "yes";
    })
    .catch((error) => console.error(error));
}

function prices() {
  const found = {};
  const devices = [...new Set(held.rows.map((row) => row.device))];
  for (const input of document.querySelectorAll("[data-device]")) {
    const price = input.value === "" ? null : Number(input.value);
    found[devices[Number(input.dataset.device)]] = price !== null && price >= 0 ? price : null;
  }
  return found;
}

// As `carrying_order` sorts: what carries the target, then by money or devices, else by rate.
function order(first, second) {
  if (first.row.carries !== second.row.carries) return first.row.carries ? -1 : 1;
  if (held.target && first.row.carries) {
    const money = (first.cost ?? Infinity) - (second.cost ?? Infinity);
    if (money) return Number.isNaN(money) ? first.row.devices - second.row.devices : money;
  }
  return second.row.qps - first.row.qps;
}

// Where the sliders stand, and the answer there: the last slider's places lie beside each other.
const places = () => held.sliders.map((slider) => Number(at(slider.name).value));
const winners = (chosen) => held.winners[chosen.reduce((before, place, number) => before * held.sliders[number].stops.length + place, 0)];

function move() {
  const chosen = places();
  const priced = prices();
  held.sliders.forEach((slider, number) => {
    at(`${slider.name}-told`).textContent = told(slider, slider.stops[chosen[number]]);
    at(slider.name).setAttribute("aria-valuetext", told(slider, slider.stops[chosen[number]]));
  });
  const found = winners(chosen).map((place) => {
    const row = held.rows[place];
    const price = priced[row.device] ?? null;
    const cost = price === null ? null : price * row.paid;
    const million = cost === null || !row.tokens ? null : cost / (row.tokens * 3600) * 1e6;
    return { row, cost, million, moved: price !== row.price };
  });
  found.sort(order);
  const asked = held.sliders.every((slider, number) => slider.asked === chosen[number]) && found.every((one) => !one.moved);
  const body = at("deployments").tBodies[0];
  body.replaceChildren(...found.map((one) => {
    const line = document.createElement("tr");
    one.row.cells.forEach((text, place) => {
      const cell = line.insertCell();
      const own = place === held.cost ? digits(one.cost) : place === held.cost + 1 ? digits(one.million) : text;
      cell.textContent = one.moved ? own : text;
      if (place > 1) cell.className = "number";
    });
    return line;
  }));
  const moved = at("moved");
  moved.hidden = asked;
  if (!found.length) moved.textContent = `Nothing fits ${limits(chosen)}.`;
  else moved.textContent = `Under ${limits(chosen)}: ${sentence(found[0])}`;
  if (view && held.marked) {
    view.data("won", found.map((one) => one.row.mark));
    const tpot = held.sliders.findIndex((slider) => slider.name === "tpot");
    const limit = tpot < 0 ? null : held.sliders[tpot].stops[chosen[tpot]];
    view.data("limit", limit === null ? [] : [{ tokens_per_s_per_user: 1000 / limit }]);
    view.runAsync().then(() => { document.body.dataset.seq = String(Number(document.body.dataset.seq || 0) + 1); });
  }
}

// The sentence of a winner was written at the prices of the file.
function sentence(one) {
  return one.moved && held.target ? one.row.sentence.replace(/ for the least money, [\d.,]+ USD an hour/, " for the least money") : one.row.sentence;
}

function limits(chosen) {
  const said = held.sliders.map((slider, number) => [slider, slider.stops[chosen[number]]]).filter(([, limit]) => limit !== null)
    .map(([slider, limit]) => (slider.name === "devices" ? `${told(slider, limit)} devices` : `${slider.called} \u2264 ${told(slider, limit)}`));
  return said.length ? said.join(", ") : "no limit on these times";
}

if (held.rows) {
  const form = at("sliders");
  const set = () => held.sliders.forEach((slider) => { at(slider.name).value = slider.asked; });
  for (const slider of held.sliders) at(slider.name).max = slider.stops.length - 1;
  set();
  form.hidden = false;
  form.addEventListener("input", move);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { set(); move(); }));
  move();
}
draw();
