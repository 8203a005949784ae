import { ApiError } from '../../../operator/runtime/errors.ts';
import { eventually } from '../../eventually.ts';
import type { DesiredAssistant } from './population.ts';
import type { SpaceView, Tenant } from './world.ts';

const DAY = '2026-11-21';
const MONTH = DAY.slice(0, 7);
const WITHIN_MS = 10_000;
/** A Service gets a pod only a moment after it is Ready. */
const ANSWERS_MS = 60_000;

/** Assistants that run the example's ledger, whose code stores an entry in its database and a statement as a file. */
export function ledgers(space: SpaceView): Tenant {
  const call = <T>({ capsule, id }: DesiredAssistant, path: string, body?: object): Promise<T> => {
    const service = `/api/v1/namespaces/${space.namespaceOf(capsule)}/services/${id}:8080/proxy`;
    return space.client.call<T>({
      method: body === undefined ? 'GET' : 'POST',
      path: service + path,
      timeoutMs: WITHIN_MS,
      ...(body === undefined ? {} : { body }),
    });
  };
  const entry = (uid: string) => ({
    date: DAY,
    description: uid,
    idempotency_key: uid,
    lines: [
      { account: 'assets:mark', currency: 'EUR', amount: '1.00' },
      { account: 'equity:mark', currency: 'EUR', amount: '-1.00' },
    ],
  });

  async function look(wished: DesiredAssistant, marked: boolean): Promise<string[]> {
    const found: string[] = [];
    const { uid } = wished;
    const { entries } = await call<{ entries: readonly { description: string }[] }>(wished, '/entries');
    const kept = await call<{ statement: string }>(wished, `/statements/${MONTH}`).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    });
    if (marked && entries.length === 0) found.push('its row is lost');
    if (marked && kept?.statement.includes(uid) !== true) found.push('its object is lost');
    // A mark that was interrupted may exist in part.
    if (entries.some(({ description }) => description !== uid))
      found.push('it sees a row of another incarnation');
    if (kept !== undefined && !kept.statement.includes(uid))
      found.push('it sees an object of another incarnation');
    return found;
  }

  return {
    async mark(wished) {
      try {
        await call(wished, '/entries', entry(wished.uid));
        await call(wished, `/statements/${MONTH}`, {});
        return true;
      } catch {
        return false;
      }
    },
    async problems(wished, marked) {
      let found: string[] = [];
      const asked = eventually(
        async () => {
          found = await look(wished, marked);
          return true;
        },
        { what: `${wished.name} answers`, within: ANSWERS_MS },
      );
      await asked.catch((error: unknown) =>
        found.push(`its URL or its token does not work: ${String(error)}`),
      );
      // An idle ledger does not write by itself, so this checks that it still can.
      if (!(await this.mark(wished))) found.push('it can no longer write');
      return found;
    },
  };
}
