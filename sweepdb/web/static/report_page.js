// A page of one or more reports: a form of their parameters, a picture, a table, and what repeats each.
import { h, fill } from "./dom.js";
import { asked, change } from "./address.js";
import { get } from "./api.js";
import { latest } from "./asking.js";
import { Picture, fitted, warm } from "./draw.js";
import { Asking, Moment, drawn, failure, tools, trust } from "./parts.js";
import { ScopeChoice } from "./scope.js";
import { showWrong, wrongNumber } from "./slider.js";
import { folding, objects, table } from "./table.js";
import { askedLine } from "./words.js";

const MOST_SHOWN = 25;

export function reportPage({ title, intro, reports, fields, defaults = {}, first = {}, scoped = true, needs = null }) {
  return async (main) => {
    warm();
    const choice = h("div", { class: "fields row" });
    const form = h("form", { class: "fields row", onsubmit: (event) => event.preventDefault() });
    const sections = reports.map((one) => ({ ...one, head: h("div"), canvas: h("div", { class: "picture" }), rows: h("div") }));
    fill(main, h("h1", {}, title), h("p", { class: "intro" }, intro), choice, form,
      sections.map((one) => h("section", { class: "report", "data-report": one.report }, one.title ? h("h2", {}, one.title) : null, one.head, one.canvas, one.rows)));
    for (const one of sections) {
      one.picture = new Picture(one.canvas);
      one.asking = new Asking(one.head, one.canvas, one.rows);
      one.head.before(one.asking.line);
    }
    const moment = new Moment(() => refresh());
    const scope = scoped ? new ScopeChoice(choice, () => { moment.forget(); refresh(); }) : null;
    const known = new Map((await get("reports")).map((one) => [one.name, one]));
    const options = new Map(reports.flatMap((one) => known.get(one.report)?.parameters ?? []).map((one) => [one.name, one]));
    if (!location.search && Object.keys(first).length) change(first);
    fill(form, fields.map((field) => input(field, options, defaults, () => refresh())));

    function given(report) {
      const taken = new Set(known.get(report)?.parameters.map((one) => one.name));
      const wanted = { ...defaults, ...asked() };
      const own = Object.fromEntries(fields.map(({ name }) => [name, wanted[name] ?? null]));
      const all = { ...(scope ? scope.parameters() : {}), ...own };
      return Object.fromEntries(Object.entries(all).filter(([name]) => taken.has(name)));
    }

    const refresh = latest(async () => {
      const missing = needs?.({ ...defaults, ...asked() });
      for (const one of sections) {
        if (missing) { fill(one.head, h("p", { class: "quiet" }, missing)); continue; }
        const parameters = { ...given(one.report), ...one.fixed };
        one.asking.begin(askedLine(parameters));
        try {
          const answer = await get(`answer/${one.report}`, { ...parameters, state: moment.wanted, picture: "true" });
          if (!moment.admits(answer)) return;
          await show(one, parameters, answer);
        } catch (error) {
          one.picture.clear();
          fill(one.head, failure(error));
          fill(one.rows);
        } finally {
          one.asking.done();
        }
      }
      drawn();
    });

    async function show(one, parameters, answer) {
      const rows = objects(answer);
      fill(one.head, answer.rows.length ? null : h("p", { class: "nothing" }, "Nothing satisfies the limits."), trust(answer));
      if (answer.picture) {
        const first = answer.groups.length ? answer.picture.data.values[0]?.group : null;
        await one.picture.show(fitted(answer.picture, { group: first || null, plans: answer.plans }), `${title}: ${answer.summary}`);
      } else one.picture.clear();
      const near = answer.nearest.rows.length ? table({ ...answer.nearest, plans: answer.plans }, objects(answer.nearest), { columns: answer.nearest.shown, caption: "Nearest misses" }) : null;
      fill(one.rows, near, rows.length ? folding(answer, rows, { most: MOST_SHOWN, left: answer.rows_left_out, caption: answer.summary }) : null,
        tools(one.report, parameters, answer, { picture: Boolean(answer.picture) }));
    }

    window.addEventListener("popstate", () => { scope?.show(); refresh(); });
    if (scope) await scope.load();
    await refresh();
  };
}

function input({ name, label, choices = null, placeholder = "" }, options, defaults, onChange) {
  const about = options.get(name);
  const value = asked()[name] ?? defaults[name] ?? "";
  const words = choices ?? about?.schema.enum?.map((one) => [one, one]);
  const numeric = ["number", "integer"].includes(about?.schema.type);
  const made = words
    ? h("select", { id: name }, [["", "-"], ...words].map(([one, text]) => h("option", { value: one, selected: one === value }, text)))
    : h("input", { id: name, type: numeric ? "number" : "text", step: "any", value, placeholder });
  const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
  made.addEventListener("change", () => {
    const told = numeric ? wrongNumber(made) : null;
    showWrong(made, wrong, told);
    if (told) return;
    change({ [name]: made.value }, { push: true });
    onChange();
  });
  return h("label", { class: "field", title: about?.description }, h("span", {}, label ?? name.replaceAll("_", " ")), made, wrong);
}
