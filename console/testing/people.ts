import { manifest } from '../../operator/testing/manifest.ts';
import { Browser } from './browser.ts';
import { ROLES, type Role } from './environment.ts';
import { condition, input, type Subjects, subjects } from './subjects.ts';
import { bindGroup, startWithIssuer } from './with-issuer.ts';
import { startWithStore, type WithStore } from './with-store.ts';

type Issued = `${Role} by the issuer`;
const issued = (role: Role): Issued => `${role} by the issuer`;

/**
 * Each role of the chart and nobody's, with a token and by the word of an issuer; a keeper, who has the verb `credentials` on one
 * Capsule and nothing else; a clerk, who is an administrator and may write Secrets; a stranger, who has not signed in.
 */
export const PEOPLE = [...ROLES, ...ROLES.map(issued), 'keeper', 'clerk', 'stranger'] as const;
export type Person = (typeof PEOPLE)[number];

/** Those who have one of these roles, however they signed in. */
const holders = (...roles: readonly Role[]): readonly Person[] => [...roles, ...roles.map(issued)];

export const SIGNED_IN: readonly Person[] = PEOPLE.filter((person) => person !== 'stranger');
export const READERS: readonly Person[] = [
  ...holders('viewer', 'deployer', 'capsule-admin', 'admin'),
  'clerk',
];
export const DEPLOYERS: readonly Person[] = [...holders('deployer', 'capsule-admin', 'admin'), 'clerk'];
export const CAPSULE_ADMINS: readonly Person[] = [...holders('capsule-admin', 'admin'), 'clerk'];

/** A Space with two Capsules and an Assistant that waits for somebody, and everybody at its console. */
export interface Gathering {
  readonly whole: WithStore;
  readonly made: Subjects;
  readonly origin: string;
  readonly issuerUrl: string;
  /** Each route of the console. */
  readonly routes: readonly string[];
  readonly as: Readonly<Record<Person, Browser>>;
  /** The principal of the Capsule `household` at the object-storage broker. */
  readonly principal: string;
  close(): Promise<void>;
}

/** Where the pods of `household` would be. */
const NAMESPACE = 'home-household-0a1b2c3d';
const SPACE = { apiGroups: ['platform.space'] };

export async function gather(): Promise<Gathering> {
  const whole = await startWithStore();
  const { environment } = whole;
  const made = subjects(environment);
  await made.capsule('household', { approval: 'manual' }, undefined, { namespace: NAMESPACE });
  await made.capsule('workshop');
  const principal = await whole.principal('household');
  await whole.principal('workshop');
  const wide = manifest('post', {
    network: { allowed_hosts: ['api.post.org'] },
    stored_inputs: { bank: input() },
  });
  await made.assistant('post', { capsule: 'household', manifest: wide }, [
    condition('Ready', 'False', 'ApprovalMissing'),
  ]);
  const console = await startWithIssuer(environment, [...ROLES]);
  const as: Partial<Record<Person, Browser>> = { stranger: new Browser(console.origin) };
  for (const role of ROLES) {
    if (role !== 'nobody') await bindGroup(environment, role, role);
    as[role] = await environment.signedIn(role, console.origin);
    as[issued(role)] = await console.signedIn(`a-${role}`, [role]);
  }
  const others = {
    keeper: [{ ...SPACE, resources: ['capsules'], resourceNames: ['household'], verbs: ['credentials'] }],
    clerk: [
      { ...SPACE, resources: ['capsules', 'assistants'], verbs: ['*'] },
      { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch'] },
    ],
  };
  for (const name of ['keeper', 'clerk'] as const)
    as[name] = await environment.signedInWith(await environment.person(name, others[name]), console.origin);
  return {
    ...{ whole, made, principal },
    ...{ origin: console.origin, routes: console.routes, issuerUrl: console.issuer.url },
    as: as as Record<Person, Browser>,
    async close() {
      await console.issuer.stop();
      await whole.close();
    },
  };
}
