// Parts that every page has: who asks whom, the offer of new data, the tools below an answer.
import { h, fill } from "./dom.js";
import { SERVED, get } from "./api.js";
import { queryOf } from "./address.js";
import { command, errorLines, ruleLine, typed, versionLine } from "./words.js";

const LOOK_MS = 5000;

// The moment that a page shows. Newer rows are offered, never put under the reader's eyes.
export class Moment {
  constructor(onWanted) {
    this.state = null;
    this.newest = null;
    this.box = document.getElementById("offer");
    this.onWanted = onWanted;
    setInterval(() => this.look(), LOOK_MS);
  }

  async look() {
    if (document.hidden || this.state === null) return;
    const now = await get("state").catch(() => null);
    if (!now || this.state === null || now.state === this.state) return;
    this.newest = now.state;
    this.offer("The store has more rows than this page shows.");
  }

  // What to ask for: this page's moment, or the newest one that it has heard of.
  get wanted() {
    return this.state ?? this.newest;
  }

  // Whether an answer may be drawn: of this page's moment, or the first.
  admits(answer) {
    this.state ??= answer.state;
    this.newest = answer.state === this.newest ? null : this.newest;
    if (answer.state === this.state) return true;
    this.offer("The rows of this page's moment are no longer held by the server.");
    return false;
  }

  offer(said) {
    fill(this.box, said, " ", h("button", { type: "button", id: "newer", onclick: () => this.take() }, "Show new data"));
    this.box.hidden = false;
  }

  take() {
    document.getElementById("main").focus(); // the button goes
    this.forget();
    this.onWanted();
  }

  forget() {
    this.state = null;
    this.box.hidden = true;
  }
}

export function failure(error) {
  return h("div", { class: "error", role: "alert" }, h("strong", {}, typed(error.message)), error.hint ? h("p", {}, typed(error.hint)) : null);
}

// Whether a text is on the clipboard, which pages of another machine have over https alone.
export const kept = (text) => navigator.clipboard?.writeText(text).then(() => true, () => false) ?? Promise.resolve(false);

// A button that takes a line along.
export function copied(line) {
  const copy = h("button", { type: "button", class: "plain", onclick: async () => {
    copy.textContent = await kept(line) ? "copied" : "not copied: this page may not";
  } }, "copy");
  return copy;
}

// SQL, other forms and the command that repeats an answer.
export function tools(report, parameters, answer, { picture = false } = {}) {
  const query = queryOf({ ...parameters, state: answer.state });
  const line = command(report, parameters);
  const at = (form) => `/api/v1/answer/${report}${form}?${query}`;
  return h("div", { class: "tools" },
    h("p", { class: "command" }, h("code", { "data-report": report }, line), " ", copied(line)),
    h("p", { class: "links" },
      ...(SERVED ? [h("a", { href: at(".csv"), download: `${report}.csv` }, "CSV"), " ", h("a", { href: at("") }, "JSON"), " "] : []),
      SERVED && picture ? h("a", { href: at(".svg"), download: `${report}.svg` }, "SVG") : null, " ",
      h("a", { href: location.href }, "link to this page")),
    h("details", {}, h("summary", {}, "SQL"), h("pre", {}, answer.sql), h("pre", {}, JSON.stringify(answer.parameters, null, 1))));
}

// How far to trust an answer, and what it rests on.
export function trust(answer) {
  const apart = answer.rows?.[0]?.[answer.columns.findIndex((one) => one.name === "mode")] === "pd";
  const lead = answer.expected_error.find((one) => !apart && one.subject.split(", ")[2] === "aggregated") ?? answer.expected_error[0];
  const first = answer.expected_error.filter((one) => one.subject === lead.subject);
  const errors = errorLines(first);
  const others = errorLines(answer.expected_error).filter((line) => !errors.includes(line));
  const considered = Object.entries(answer.considered).map(([name, count]) => `${count.toLocaleString("en")} ${name}`).join(" of ");
  return h("div", { class: "trust" },
    errors.length ? h("p", { class: "expected" }, h("strong", {}, "Expected error: "), errors.join("; ")) : null,
    answer.verdict.map((line) => h("p", { class: "verdict" }, typed(line))),
    h("details", {}, h("summary", {}, `Rules and assumptions (${considered} looked at)`),
      h("p", {}, ruleLine(answer)), h("p", {}, versionLine(answer)),
      others.length ? h("p", {}, "Expected error of other rows: ", others.join("; ")) : null,
      answer.left_out ? h("p", {}, typed(answer.left_out)) : null,
      answer.notes.length ? h("ul", {}, answer.notes.map((note) => h("li", {}, typed(note)))) : null));
}

// Something long that is made when it is opened, and stays open while what it shows changes.
export class Folded {
  constructor(id) {
    this.line = h("summary", {});
    this.inside = h("div");
    this.make = null;
    this.element = h("details", { id, ontoggle: () => this.made() }, this.line, this.inside);
  }

  show(title, make) {
    this.line.textContent = title;
    this.make = make;
    if (this.element.open) this.made();
    else fill(this.inside);
  }

  made() {
    if (this.element.open && this.make) fill(this.inside, this.make());
  }
}

// Whether an answer is being computed: the old one is greyed, and a line says what is asked.
export class Asking {
  constructor(...parts) {
    this.parts = parts;
    this.line = h("p", { class: "asking", role: "status", hidden: true });
  }

  begin(what) {
    this.line.textContent = `Asking: ${what} ...`;
    this.line.hidden = false;
    for (const part of this.parts) part.classList.add("stale");
  }

  // Those of its parts that show the new answer; the line goes with the last.
  done(...parts) {
    for (const part of parts.length ? parts : this.parts) part.classList.remove("stale");
    this.line.hidden = !this.parts.some((part) => part.classList.contains("stale"));
  }
}

export function drawn() {
  document.body.dataset.seq = String(Number(document.body.dataset.seq) + 1);
}
