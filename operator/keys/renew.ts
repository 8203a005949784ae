import { endOf, isAuthority, makeAuthority, makeCertificate, type Pair, whyRenew } from './certificates.ts';
import type { Stored } from './cluster.ts';
import { labelsOf, type Run } from './options.ts';

/** Secret with the authority's key, and ConfigMap with its certificate, of this name. */
export const AUTHORITY = 'space-ca';
export const certificateSecret = (service: string) => `${service}-tls`;

const TYPE = 'kubernetes.io/tls';
const pairIn = (stored: Stored | undefined): Partial<Pair> => ({
  ...(stored?.data['tls.crt'] !== undefined && { certificate: stored.data['tls.crt'] }),
  ...(stored?.data['tls.key'] !== undefined && { key: stored.data['tls.key'] }),
});
const dataOf = ({ certificate, key }: Pair) => ({ 'tls.crt': certificate, 'tls.key': key });

/**
 * The Space's authority and what it signs. No data are lost with them, so an authority that is gone is made anew: that
 * is how a person exchanges it, and every certificate follows. Answers how many Secrets it refused to use.
 */
export async function keepCertificates(
  run: Run,
  certificates: NonNullable<Run['certificates']>,
): Promise<number> {
  const { cluster, servicesNamespace: services, systemNamespace: system, now, tell } = run;
  const authority = await keepAuthority(run, certificates.authorityDays);
  if (authority === undefined) return 1;
  for (const namespace of [services, system]) {
    const data = { 'ca.crt': authority.certificate };
    const stored = await cluster.read('ConfigMap', namespace, AUTHORITY);
    if (stored === undefined)
      await cluster.create('ConfigMap', namespace, AUTHORITY, { data, labels: labelsOf(run) });
    else if (stored.data['ca.crt'] !== data['ca.crt'])
      await cluster.change('ConfigMap', namespace, AUTHORITY, stored, { data });
  }
  const ends: Record<string, string> = {};
  for (const [service, { place, names: others }] of Object.entries(certificates.services)) {
    const namespace = place === 'system' ? system : services;
    const inside = `${service}.${namespace}`;
    const names = [`${inside}.svc`, inside, `${inside}.svc.cluster.local`, ...others];
    const name = certificateSecret(service);
    const stored = await cluster.read('Secret', namespace, name);
    const why = stored === undefined ? undefined : whyRenew(pairIn(stored), authority, names, now);
    if (stored !== undefined && why === undefined) {
      ends[service] = endOf(stored.data['tls.crt'] ?? '');
      continue;
    }
    const made = await makeCertificate(authority, names, certificates.days, now);
    ends[service] = endOf(made.certificate);
    const data = dataOf(made);
    if (stored === undefined) {
      await cluster.create('Secret', namespace, name, { type: TYPE, data, labels: labelsOf(run) });
      tell('made', `${namespace}/${name}`);
    } else {
      await cluster.change('Secret', namespace, name, stored, { data });
      tell('renewed', `${namespace}/${name}`, why);
    }
  }
  if (run.console) await tellEnds(run, ends);
  return 0;
}

/** Where the console reads when certificates end, most of which it never meets and none of whose Secrets it may read. */
async function tellEnds({ cluster, systemNamespace }: Run, ends: Readonly<Record<string, string>>) {
  const stored = await cluster.read('ConfigMap', systemNamespace, AUTHORITY);
  const data = { 'certificates.json': `${JSON.stringify(ends)}\n` };
  if (stored !== undefined && stored.data['certificates.json'] !== data['certificates.json'])
    await cluster.change('ConfigMap', systemNamespace, AUTHORITY, stored, { data });
}

async function keepAuthority(run: Run, days: number): Promise<Pair | undefined> {
  const { cluster, servicesNamespace, space, now, tell } = run;
  const stored = await cluster.read('Secret', servicesNamespace, AUTHORITY);
  if (stored === undefined) {
    const made = await makeAuthority(`Space ${space}`, days, now);
    const wish = { type: TYPE, data: dataOf(made), labels: labelsOf(run) };
    await cluster.create('Secret', servicesNamespace, AUTHORITY, wish);
    tell('made', `${servicesNamespace}/${AUTHORITY}`);
    return made;
  }
  const pair = pairIn(stored);
  if (isAuthority(pair)) return pair;
  tell(
    'refused',
    `${servicesNamespace}/${AUTHORITY}`,
    'it is not an authority with its key (P-256): put it back, or delete it, and it is made anew with every certificate',
  );
  return undefined;
}
