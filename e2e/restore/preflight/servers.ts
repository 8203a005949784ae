/**
 * Checks whether the values name each PostgreSQL server that the Space's Capsules were on: without one the broker
 * does not start.
 */
import type { KubeObject } from '../../space/kube-object.ts';
import { UNCHANGED } from '../copies.ts';
import type { Rendered } from '../pods.ts';
import { RestoreProblem } from '../problem.ts';
import { capsulesIn, type State } from '../state.ts';

/** @throws RestoreProblem that names servers and Capsules */
export function refuseMissingServers(then: State, rendered: Rendered): void {
  const { databaseHosts = {}, namespaces } = then;
  const named = namesIn(rendered);
  const missing = new Map<string, string[]>();
  for (const capsule of capsulesIn(then)) {
    const secret = then.objects.find(
      ({ kind, metadata }) =>
        kind === 'Secret' &&
        metadata.namespace === namespaces.system &&
        metadata.name === `capsule-${capsule}-database`,
    );
    const host = hostIn(secret);
    const [server] = Object.entries(databaseHosts).find(([, of]) => of === host) ?? [];
    if (server !== undefined && !named.includes(server))
      missing.set(server, [...(missing.get(server) ?? []), capsule]);
  }
  if (missing.size === 0) return;
  const told = [...missing].map(([server, capsules]) => `${server} (Capsules ${capsules.join(', ')})`);
  throw new RestoreProblem(
    `these values lack PostgreSQL servers that Capsules were on at that moment: ${told.join('; ')}. Restore each from its own backup, and list it in postgres.servers under its former name; its host may differ. ${UNCHANGED}`,
  );
}

function hostIn(secret: KubeObject | undefined): string | undefined {
  const url: string | undefined = secret?.['data']?.['database-url'];
  if (url === undefined) return undefined;
  const text = Buffer.from(url, 'base64').toString();
  return URL.canParse(text) ? new URL(text).hostname : undefined;
}

function namesIn(rendered: Rendered): readonly string[] {
  const map = rendered.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'db-servers');
  const text: string | undefined = map?.['data']?.['servers.json'];
  const { servers }: { servers: readonly { readonly name: string }[] } =
    text === undefined ? { servers: [] } : JSON.parse(text);
  return ['main', ...servers.map(({ name }) => name)];
}
