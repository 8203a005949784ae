import { query } from '../../../brokers/db/testing/postgres.ts';
import * as kinds from '../../../operator/kinds.ts';
import { workloadObjectsSecretName, workloadSecretName } from '../../../operator/names.ts';
import type { DesiredAssistant } from './population.ts';
import type { SpaceView, Tenant } from './world.ts';

/** Without pods, this process does what the Assistants' code would do. */
export function tenants(space: SpaceView, dataUrl: string): Tenant {
  async function credentials({ capsule, id }: DesiredAssistant) {
    const namespace = space.namespaceOf(capsule);
    const read = async (name: string, key: string) => {
      const secret = await space.get<kinds.SecretObject>(kinds.SECRET, name, namespace);
      return Buffer.from(secret?.data?.[key] ?? '', 'base64').toString('utf8');
    };
    const [url, token] = await Promise.all([
      read(workloadSecretName(id), 'DATABASE_URL'),
      read(workloadObjectsSecretName(id), 'token'),
    ]);
    return { url, token };
  }
  const object = async (token: string, body?: string) => {
    const response = await fetch(`${dataUrl}/v1/objects/data/mark`, {
      method: body === undefined ? 'GET' : 'PUT',
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(30_000),
      ...(body === undefined ? {} : { body }),
    });
    return { status: response.status, text: await response.text() };
  };

  return {
    async mark(wished) {
      try {
        const { url, token } = await credentials(wished);
        if (url === '' || token === '') return false;
        const statement = `CREATE TABLE IF NOT EXISTS mark (uid text); INSERT INTO mark VALUES ('${wished.uid}')`;
        await query(url, statement);
        return (await object(token, wished.uid)).status === 200;
      } catch {
        return false;
      }
    },
    async problems(wished, marked) {
      const { url, token } = await credentials(wished);
      const found: string[] = [];
      const rows = await query<{ uid: string }>(url, 'SELECT uid FROM mark').catch((error: unknown) => {
        const missing = error instanceof Error && 'code' in error && error.code === '42P01';
        if (!missing) found.push(`its URL does not work: ${String(error)}`);
        return [];
      });
      const answer = await object(token);
      if (answer.status !== 200 && answer.status !== 404)
        found.push(`its token does not work: ${answer.status}`);
      if (marked && !rows.some(({ uid }) => uid === wished.uid)) found.push('its row is lost');
      if (marked && answer.text !== wished.uid) found.push('its object is lost');
      // A table without rows of this incarnation belongs to an earlier one.
      if (rows.some(({ uid }) => uid !== wished.uid)) found.push('it sees a row of another incarnation');
      if (answer.status === 200 && answer.text !== wished.uid)
        found.push('it sees an object of another incarnation');
      return found;
    },
  };
}
