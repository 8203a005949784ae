import type { Stored } from './cluster.ts';
import { decide } from './decide.ts';
import { type Location, type Material, materialsOf, verifyingKeys } from './materials.ts';
import { labelsOf, type Run } from './options.ts';
import { type Record, readRecord } from './record.ts';
import { keepCertificates } from './renew.ts';

const GRANTS = 'objectstore-grants';

/**
 * Creates missing keys and certificates of a Space, renews certificates in time, and overwrites nothing. After a crash
 * at any point the next run completes the work. Returns how many Secrets it refused to create or to use.
 */
export async function keepKeys(run: Run): Promise<number> {
  const record = await readRecord(run);
  const present: string[] = [];
  let refused = 0;
  for (const material of materialsOf(run)) {
    if (run.given.includes(material.value)) continue;
    if (await keepOne(run, material, record)) present.push(material.name);
    else refused += 1;
  }
  await record.add(present);
  if (present.includes(GRANTS)) await keepVerifyingKeys(run);
  if (run.certificates !== undefined) refused += await keepCertificates(run, run.certificates);
  return refused;
}

const namespaceOf = (run: Run, place: Location) =>
  place === 'system' ? run.systemNamespace : run.servicesNamespace;

/** Ensures one Secret; returns whether it exists and is valid. */
async function keepOne(run: Run, material: Material, record: Record): Promise<boolean> {
  const { cluster, tell } = run;
  const { name, places } = material;
  const stored = new Map<Location, Stored>();
  for (const place of places) {
    const found = await cluster.read('Secret', namespaceOf(run, place), name);
    if (found !== undefined) stored.set(place, found);
  }
  const at = (place: Location) => `${namespaceOf(run, place)}/${name}`;
  const decision = decide(material, { stored, promisedBy: record.promisedBy(name) });
  switch (decision.kind) {
    case 'refuse':
      tell('refused', places.map(at).join(', '), decision.reason);
      return false;
    case 'make':
      for (const place of decision.places) {
        const wish = { type: 'Opaque', data: decision.data, labels: labelsOf(run) };
        await cluster.create('Secret', namespaceOf(run, place), name, wish);
        tell('made', at(place));
      }
      return true;
    case 'derive':
      await cluster.change('Secret', namespaceOf(run, decision.place), name, decision.stored, {
        data: decision.data,
      });
      tell('updated', at(decision.place), `${Object.keys(decision.data).join(', ')} followed its other keys`);
      return true;
    case 'keep':
      if (decision.differing)
        tell('differs', places.map(at).join(', '), 'they are exchanged, or one is wrong');
      return true;
  }
}

/** Ensures the keys that the broker verifies grants with; they include the one for the operator's signing key. */
async function keepVerifyingKeys(run: Run): Promise<void> {
  const { cluster, servicesNamespace, systemNamespace, tell } = run;
  const signing = await cluster.read('Secret', systemNamespace, GRANTS);
  const stored = await cluster.read('Secret', servicesNamespace, GRANTS);
  const keys = verifyingKeys(signing?.data['key'] ?? '', stored?.data['keys']);
  const at = `${servicesNamespace}/${GRANTS}`;
  if (stored === undefined) {
    const wish = { type: 'Opaque', data: { keys }, labels: labelsOf(run) };
    await cluster.create('Secret', servicesNamespace, GRANTS, wish);
    tell('made', at);
  } else if (stored.data['keys'] !== keys) {
    await cluster.change('Secret', servicesNamespace, GRANTS, stored, { data: { keys } });
    tell('updated', at, 'the key that grants are signed with was not among them');
  }
}
