import { AUTHORITY, dataOf, keepAuthority, pairIn, TLS } from './authority.ts';
import { endOf, makeCertificate, whyRenew } from './certificates.ts';
import { labelsOf, type Run } from './options.ts';

export const certificateSecret = (service: string) => `${service}-tls`;

/**
 * Maintains the Space's authority and its certificates. No data depend on them, so a missing authority is created
 * again, and all certificates follow: a person whose authority's key has leaked deletes it to exchange it at once.
 * Returns how many Secrets it refused to use.
 */
export async function keepCertificates(
  run: Run,
  certificates: NonNullable<Run['certificates']>,
): Promise<number> {
  const { cluster, servicesNamespace: services, systemNamespace: system, now, tell } = run;
  const authority = await keepAuthority(run, certificates);
  if (authority === undefined) return 1;
  // Authorities are published first, so that everybody can verify a certificate once it is signed.
  for (const namespace of [services, system]) {
    const data = { 'ca.crt': authority.trusted };
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
    const why = stored === undefined ? undefined : whyRenew(pairIn(stored), authority.signing, names, now);
    if (stored !== undefined && why === undefined) {
      ends[service] = endOf(stored.data['tls.crt'] ?? '');
      continue;
    }
    const made = await makeCertificate(authority.signing, names, certificates.days, now);
    ends[service] = endOf(made.certificate);
    const data = dataOf(made);
    if (stored === undefined) {
      await cluster.create('Secret', namespace, name, { type: TLS, data, labels: labelsOf(run) });
      tell('made', `${namespace}/${name}`);
    } else {
      await cluster.change('Secret', namespace, name, stored, { data });
      tell('renewed', `${namespace}/${name}`, why);
    }
  }
  await authority.published();
  if (run.console) await tellEnds(run, ends);
  return 0;
}

/**
 * Publishes when certificates end, for the console, which connects to few of the services and may read none of the
 * Secrets.
 */
async function tellEnds({ cluster, systemNamespace }: Run, ends: Readonly<Record<string, string>>) {
  const stored = await cluster.read('ConfigMap', systemNamespace, AUTHORITY);
  const data = { 'certificates.json': `${JSON.stringify(ends)}\n` };
  if (stored !== undefined && stored.data['certificates.json'] !== data['certificates.json'])
    await cluster.change('ConfigMap', systemNamespace, AUTHORITY, stored, { data });
}
