// DuckDB in a worker of this page: one database at a time, and a connection a report, whose statements are planned once.
import { AsyncDuckDB, VoidLogger } from "../engine/duckdb.js";

const HERE = new URL("../", import.meta.url);
const NAME = "rows.duckdb";

const WITHOUT_EXTENSIONS = ["autoinstall_known_extensions", "autoload_known_extensions"].map((name) => `SET ${name} = false`); // none is fetched

// Statements as one text: each message to a worker waits for its turn.
export function together(statements) {
  return statements.map((one) => one.trim().replace(/;$/, "")).join(";\n");
}

// A value of a row as JSON has it: counts beyond 2^53 do not occur.
function plain(value) {
  if (typeof value === "bigint") return Number(value);
  return typeof value === "number" && !Number.isFinite(value) ? null : value ?? null;
}

export class Engine {
  constructor() {
    this.started = null;
    this.opened = null;
    this.connections = new Map();
    this.start().catch(() => null); // told to whoever asks first
  }

  async start() {
    this.started ??= (async () => {
      const database = new AsyncDuckDB(new VoidLogger(), new Worker(new URL("engine/duckdb.worker.js", HERE)));
      await database.instantiate(new URL("engine/duckdb.wasm", HERE).href);
      return database;
    })();
    return this.started;
  }

  // Open the rows of a choice in place of others.
  async open(address) {
    if (this.opened === address) return;
    const [database, rows] = await Promise.all([this.start(), fetch(address).then((told) => told.arrayBuffer())]);
    for (const name of [...this.connections.keys()]) await this.close(name);
    if (this.opened !== null) { await database.reset(); await database.dropFile(NAME); }
    await database.registerFileBuffer(NAME, new Uint8Array(rows));
    await database.open({ path: NAME, query: { castBigIntToDouble: true } });
    this.opened = address;
  }

  async close(name) {
    const known = this.connections.get(name);
    this.connections.delete(name);
    await known?.statement?.close();
    await known?.connection.close();
  }

  // A connection on which statements were run, by whose key it is known again.
  async connection(name, key, statements) {
    if (this.connections.get(name)?.key === key) return this.connections.get(name);
    await this.close(name);
    const made = { key, connection: await (await this.start()).connect(), statement: null, planned: null, budget: null };
    await made.connection.query(together([...WITHOUT_EXTENSIONS, ...statements]));
    this.connections.set(name, made);
    return made;
  }
}

// The rows of a statement, as lists of plain values; it is planned anew where variables of its plan changed.
export async function rowsOf(made, sql, variables) {
  const planned = [sql, ...variables].join("\n");
  if (made.planned !== planned) {
    await made.statement?.close();
    made.planned = null;
    await made.connection.query(together(variables));
    made.statement = await made.connection.prepare(sql);
    made.planned = planned;
  }
  const found = await made.statement.query();
  const columns = found.schema.fields.map((one, place) => found.getChildAt(place));
  return Array.from({ length: found.numRows }, (_, row) => columns.map((column) => plain(column.get(row))));
}
