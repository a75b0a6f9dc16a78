// Answers of a site: documents that were written when it was published, with rows that DuckDB finds under the limits asked.
import { Refused } from "./asking.js";
import { LIMITS } from "./limits.js";
import { Engine, rowsOf, together } from "./site_engine.js";

const DATA = new URL("../data/", import.meta.url);
const BUDGET = "num_devices";
const DECIMALS = 2; // of a limit that is relaxed, as queries/asking/limits.py rounds it
// The devices that a budget leaves to `scope` and to `lots`: what is made ready is over all of them.
const KEPT_WHOLE = [
  "CREATE TEMP TABLE scope_whole AS FROM scope",
  "CREATE TEMP TABLE lots_whole AS FROM lots",
];

function given(value) {
  return value !== null && value !== undefined && value !== "";
}

// Whether the limits are those of a page that is opened without any: rows under them are written beside the document.
function usual(site, parameters) {
  return !given(parameters[BUDGET]) && LIMITS.every(({ keyword }) => (given(parameters[keyword]) ? Number(parameters[keyword]) : undefined) === site.usual[keyword]);
}

// A limit that admits a nearest miss, rounded away from the limit that was asked.
function relaxed(value, limit, asked) {
  if (limit.reserve && value < 0) return null;
  const gap = Math.abs(value - (asked ?? 0));
  const decimals = gap === 0 ? DECIMALS : Math.max(DECIMALS, 1 - Math.floor(Math.log10(gap)));
  const near = Number(value.toFixed(decimals));
  const beyond = limit.least ? near > value : near < value;
  return (beyond ? near + (limit.least ? -1 : 1) * 10 ** -decimals : near).toFixed(decimals);
}

export class Site {
  constructor() {
    this.files = new Map();
    this.unready = [];
    this.workers = Object.fromEntries(["best", "pareto"].map((report) => [report, { engine: new Engine(), turn: Promise.resolve() }])); // on a core each
  }

  file(name) {
    if (!this.files.has(name)) this.files.set(name, fetch(new URL(name, DATA)).then((told) => told.json()));
    return this.files.get(name);
  }

  // Make the engines ready for what was answered without them.
  ready() {
    return Promise.all(this.unready.splice(0).map(([report, parameters]) => this.answer(report, parameters, true).catch(() => null))); // told to whoever asks
  }

  // One question after another in each worker.
  answer(report, parameters, byEngine = false) {
    const worker = this.workers[report];
    const mine = worker.turn.then(() => this.found(worker.engine, report, parameters, byEngine));
    worker.turn = mine.catch(() => null);
    return mine;
  }

  async found(engine, report, parameters, byEngine) {
    const [site, setups] = await Promise.all([this.file("site.json"), this.file("setups.json")]);
    const place = site.choices.findIndex((one) => Object.entries(one).every(([name, value]) => parameters[name] === value));
    const { scopes, plans } = await this.file(`${place}/scopes.json`);
    const scope = scopes.find((one) => one.device === (parameters.device ?? null) && one.family === (parameters.family ?? null));
    const known = scope.answers[report];
    const refusal = known.refused ? known : Object.entries(known.refuses).find(([name]) => given(parameters[name]))?.[1];
    if (refusal) throw new Refused(refusal.refused, refusal);
    const asked = { limits: { ...known.limits }, budget: given(parameters[BUDGET]) ? Number(parameters[BUDGET]) : null };
    for (const one of LIMITS) if (given(parameters[one.keyword])) asked.limits[one.field] = Number(parameters[one.keyword]);
    const ask = (name, made, variables) => this.rows(engine, site, asked, { name, scope: known.scope, key: [place, scopes.indexOf(scope), made], address: new URL(`${place}/${made}.duckdb`, DATA).href, setup: setups[made], variables });
    const written = !byEngine && usual(site, parameters) ? known.first : null;
    if (written) this.unready.push([report, parameters]);
    const rows = written ?? await ask(report, known.setup, known.variables);
    const shown = (name) => site.reports[name].shown?.filter(([, names]) => names === null || names.some((one) => given(parameters[one]))).map(([name_]) => name_) ?? null;
    const { columns, told_sql: sql } = site.reports[report];
    return {
      ...known, columns, rows, plans, sql, shown: shown(report), limits: asked.limits,
      picture: rows.length ? known.picture : null,
      nearest: rows.length || !known.nearest ? { columns: [], rows: [], shown: null } : await this.nearest(site, ask, known, asked, shown("nearest")),
      parameters: Object.fromEntries(Object.entries(known.parameters).map(([name, value]) => {
        const limit = LIMITS.find((one) => site.variables[one.keyword] === name);
        return [name, limit ? asked.limits[limit.field] : name === BUDGET ? asked.budget : value];
      })),
    };
  }

  async nearest(site, ask, known, asked, shown) {
    const { columns } = site.reports.nearest;
    const rows = [];
    for (const variables of known.nearest.variables) rows.push(...await ask("nearest", known.nearest.setup, [...known.variables, ...variables]));
    const [binding, value] = ["binding_limit", "relax_to"].map((name) => columns.findIndex((one) => one.name === name));
    for (const row of rows) {
      const limit = LIMITS.find((one) => one.name === row[binding]);
      row[value] = relaxed(row[value], limit, asked.limits[limit.field]);
    }
    return { columns, rows, shown };
  }

  // The rows of a report under limits, which are the one row of `asked`, and within a budget of devices.
  async rows(engine, site, { limits, budget }, { name, scope, key, address, setup, variables }) {
    const values = LIMITS.filter((one) => site.variables[one.keyword]).map((one) => `${site.variables[one.keyword]} = ${limits[one.field] ?? "NULL"}`).join(", ");
    const replanned = name === "nearest" ? LIMITS.filter((one) => site.variables[one.keyword]).map((one) => `SET VARIABLE ${site.variables[one.keyword]} = ${limits[one.field] ?? "NULL"}::DOUBLE`) : [];
    const budgeted = [...variables, `SET VARIABLE ${BUDGET} = ${budget ?? "NULL"}::BIGINT`, ...replanned];
    const made = await engine.connection(name, key.join(), address, [site.asked, `UPDATE asked SET ${values}`, scope, ...budgeted, ...setup.statements, ...KEPT_WHOLE]);
    const moved = made.connection.query(`UPDATE asked SET ${values}`); // a worker takes messages in turn
    if (made.budget !== budget) {
      const within = `FROM lots_whole AS lot WHERE ${budget === null} OR lot.num_devices <= ${budget ?? 0}`;
      await made.connection.query(together(["DELETE FROM lots", `INSERT INTO lots ${within}`, "DELETE FROM scope", `INSERT INTO scope FROM scope_whole WHERE scenario_id IN (SELECT scenario_id ${within})`]));
      made.budget = budget;
    }
    return (await Promise.all([rowsOf(made, setup.sql, budgeted), moved]))[0];
  }
}
