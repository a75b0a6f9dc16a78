// DuckDB's worker, given an engine that its page has compiled: two workers would each fetch and compile 34 MB.
addEventListener("message", ({ data: module }) => {
  WebAssembly.instantiateStreaming = async (_, imports) => ({ module, instance: await WebAssembly.instantiate(module, imports) });
  importScripts("../engine/duckdb.worker.js");
}, { once: true });
