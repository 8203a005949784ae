import { makeAuthority, type Pair } from './certificates.ts';
import type { Stored, Wish } from './cluster.ts';
import { type Authorities, nextStep, trusted } from './exchange.ts';
import { labelsOf, type Run } from './options.ts';

/** Name of the Secret with the authority's key and of the ConfigMap with its certificate. */
export const AUTHORITY = 'space-ca';
export const TLS = 'kubernetes.io/tls';

/** A new value of this annotation asks for an exchange of the authority. */
const ASKED = 'platform.space/exchange';
const SERVED = 'platform.space/exchanged';
const PUBLISHED = 'platform.space/published';
const MINUTE_MS = 60_000;

export const pairIn = (stored: Stored | undefined, names = ['tls.crt', 'tls.key']): Partial<Pair> => {
  const [certificate, key] = names.map((name) => stored?.data[name]);
  return { ...(certificate !== undefined && { certificate }), ...(key !== undefined && { key }) };
};
export const dataOf = ({ certificate, key }: Pair) => ({ 'tls.crt': certificate, 'tls.key': key });

type Changes = NonNullable<Wish['data']>;

export interface KeptAuthority {
  /** The authority that signs new certificates. */
  readonly signing: Pair;
  /** All authorities that are trusted now, in PEM. */
  readonly trusted: string;
  /** Records that ConfigMaps and certificates have this state; the next step of an exchange waits from then on. */
  published(): Promise<void>;
}

/**
 * Loads the authority, creates it if there is none, and takes the next step of an exchange if one is due. Undefined if
 * the authority cannot be used.
 */
export async function keepAuthority(
  run: Run,
  { authorityDays, authorityStepMinutes }: NonNullable<Run['certificates']>,
): Promise<KeptAuthority | undefined> {
  const { cluster, servicesNamespace: services, space, now, tell } = run;
  const at = `${services}/${AUTHORITY}`;
  const make = () => makeAuthority(`Space ${space}`, authorityDays, now);
  const read = () => cluster.read('Secret', services, AUTHORITY);
  const stored = await read();
  if (stored === undefined) {
    const signing = await make();
    await cluster.create('Secret', services, AUTHORITY, {
      ...{ type: TLS, data: dataOf(signing), labels: labelsOf(run) },
    });
    tell('made', at);
    return { signing, trusted: signing.certificate, published: async () => undefined };
  }
  const step = nextStep(authoritiesIn(stored), now, authorityStepMinutes * MINUTE_MS);
  if (step.kind === 'refuse') {
    tell(
      'refused',
      at,
      'it is not an authority with its key (P-256): restore it, or delete it, and it is created anew with all certificates',
    );
    return undefined;
  }
  const take = async (data: Changes, annotations: Changes, why: string) => {
    await cluster.change('Secret', services, AUTHORITY, stored, {
      data,
      annotations: { [PUBLISHED]: null, ...annotations },
    });
    tell('updated', at, why);
  };
  if (step.kind === 'announce') {
    const { certificate, key } = await make();
    const served = stored.annotations[ASKED];
    await take(
      { 'next.crt': certificate, 'next.key': key },
      served === undefined ? {} : { [SERVED]: served },
      `another is trusted beside it, since ${step.why}`,
    );
  }
  if (step.kind === 'sign')
    await take(
      { ...dataOf(step.authority), 'next.crt': null, 'next.key': null, 'former.crt': step.former },
      {},
      'the next one signs from now on',
    );
  if (step.kind === 'forget') await take({ 'former.crt': null }, {}, 'the former one is trusted no more');
  const changed = step.kind === 'keep' ? stored : ((await read()) ?? stored);
  const authorities = authoritiesIn(changed);
  const waits = authorities.next !== undefined || authorities.former !== undefined;
  return {
    signing: step.authority,
    trusted: trusted(authorities),
    published: async () => {
      if (!waits || authorities.published !== undefined) return;
      const annotations = { [PUBLISHED]: now.toISOString() };
      await cluster.change('Secret', services, AUTHORITY, changed, { annotations });
    },
  };
}

function authoritiesIn(stored: Stored): Authorities {
  const next = pairIn(stored, ['next.crt', 'next.key']);
  const { [ASKED]: asked, [SERVED]: served, [PUBLISHED]: published } = stored.annotations;
  const former = stored.data['former.crt'];
  return {
    current: pairIn(stored),
    ...(Object.keys(next).length > 0 && { next }),
    ...(former !== undefined && { former }),
    ...(asked !== undefined && { asked }),
    ...(served !== undefined && { served }),
    ...(published !== undefined && { published }),
  };
}
