// What a page under test can be asked. The runner calls `check(name, argument)` and gets JSON back.
import { SlmError } from '../../src/errors.js';

export function expose(checks: Record<string, (argument: never) => Promise<unknown>>): void {
  const check = async (name: string, argument: never): Promise<string> => {
    try {
      const run = checks[name];
      if (run === undefined) throw new Error(`no check ${name}`);
      return JSON.stringify({ value: (await run(argument)) ?? null });
    } catch (fault) {
      return JSON.stringify({ fault: fault instanceof SlmError ? fault.facts() : { code: 'page', message: String(fault) } });
    }
  };
  (globalThis as unknown as { check: typeof check }).check = check;
}
