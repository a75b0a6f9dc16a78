// What asking has in common, whoever answers: a refusal in two sentences, and one question at a time.

export class Refused extends Error {
  constructor(status, told) {
    super(told.error ?? `status ${status}`);
    this.status = status;
    this.hint = told.hint;
  }
}

// One question at a time: what was asked meanwhile is forgotten but for the last.
export function latest(work) {
  let running = false;
  let again = false;
  return async function asking() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      do {
        again = false;
        await work(() => again);
      } while (again);
    } finally {
      running = false;
    }
  };
}
