// DuckDB in a worker of this page: a file of tables and a connection a report, whose statements are planned once.
import { AsyncDuckDB, VoidLogger } from "../engine/duckdb.js";

const HERE = new URL("../", import.meta.url);

const WITHOUT_EXTENSIONS = ["autoinstall_known_extensions", "autoload_known_extensions"].map((name) => `SET ${name} = false`); // none is fetched

// Statements as one text: each message to a worker waits for its turn.
export function together(statements) {
  return statements.map((one) => one.trim().replace(/;$/, "")).join(";\n");
}

// Values of a column as JSON has them: counts beyond 2^53 do not occur.
function plain(column) {
  return Array.from(column, (value) => {
    if (typeof value === "bigint") return Number(value);
    return typeof value === "number" && !Number.isFinite(value) ? null : value ?? null;
  });
}

export class Engine {
  constructor() {
    this.started = null;
    this.connections = new Map();
  }

  start() {
    this.started ??= (async () => {
      const database = new AsyncDuckDB(new VoidLogger(), new Worker(new URL("engine/duckdb.worker.js", HERE)));
      await database.instantiate(new URL("engine/duckdb.wasm", HERE).href);
      await database.open({ path: ":memory:", query: { castBigIntToDouble: true } });
      return database;
    })();
    return this.started;
  }

  // A connection to the tables of a file, on which statements were run; it is known again by its name and key.
  async connection(name, key, address, statements) {
    if (this.connections.get(name)?.key === key) return this.connections.get(name);
    const [database, tables] = await Promise.all([this.start(), fetch(address).then((told) => told.arrayBuffer())]);
    await this.close(name, database);
    const connection = await database.connect();
    await database.registerFileBuffer(`${name}.duckdb`, new Uint8Array(tables));
    await connection.query(together([...WITHOUT_EXTENSIONS, `ATTACH '${name}.duckdb' AS ${name} (READ_ONLY)`, `USE ${name}`, ...statements]));
    const made = { key, connection, statement: null, planned: null, budget: null };
    this.connections.set(name, made);
    return made;
  }

  async close(name, database) {
    const known = this.connections.get(name);
    if (!known) return;
    this.connections.delete(name);
    await known.statement?.close();
    await known.connection.query(`USE memory; DETACH ${name}`);
    await known.connection.close();
    await database.dropFile(`${name}.duckdb`);
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
  const columns = found.schema.fields.map((one, place) => plain(found.getChildAt(place)));
  return Array.from({ length: found.numRows }, (_, row) => columns.map((column) => column[row]));
}
