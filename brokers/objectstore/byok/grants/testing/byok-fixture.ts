import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { digestOf, newToken, Secret } from '@space/broker-kit';
import type { GrantClaims } from '../../../../../manifests/driver/grant.ts';
import { type Assistant, assistant } from '../../../testing/assistant.ts';
import type { Client, TestBroker } from '../../../testing/broker.ts';
import { type Fixture, openFixture } from '../../../testing/fixture.ts';
import {
  type CredentialClient,
  credentialsOf,
  type OwnStore,
  startOwnStore,
} from '../../credentials/testing/byok.ts';
import { claimsFor, type Issuer, newIssuer } from './issuer.ts';

/** Two real S3 servers, the Space's and a Capsule's own, and brokers whose data plane uses grants. */
export interface ByokFixture extends Fixture {
  readonly own: OwnStore;
  readonly issuer: Issuer;
  readonly environment: Record<string, string>;
  home(capsule: string): Promise<Home>;
  /** Puts other keys where the brokers look for them. */
  useKeys(text: string): void;
}

/** A Capsule with an Assistant, as the broker's clients see them. */
export interface Home {
  readonly capsule: string;
  readonly owner: Client;
  readonly credentials: CredentialClient;
  readonly token: string;
  readonly about: Pick<GrantClaims, 'capsule' | 'app' | 'cnf'>;
  /** The Assistant at a replica, with whatever is given as its grant. */
  at(broker: TestBroker, grant?: string): Assistant;
}

export async function openByokFixture(): Promise<ByokFixture> {
  const directory = mkdtempSync(join(tmpdir(), 'space-grants-'));
  const keysFile = join(directory, 'keys');
  const useKeys = (text: string) => writeFileSync(keysFile, text);
  const issuer = newIssuer();
  useKeys(issuer.keySet());
  const own = await startOwnStore();
  const environment = { ...own.environment, DATA_PLANE_BYOK: 'true', GRANT_KEYS_FILE: keysFile };
  const clear = async () => {
    await own.remove();
    rmSync(directory, { recursive: true });
  };
  try {
    const fixture = await openFixture({ environment });
    return {
      ...fixture,
      ...{ own, issuer, environment, useKeys },
      home: (capsule) => newHome(fixture.broker, capsule),
      close: async () => {
        await fixture.close();
        await clear();
      },
    };
  } catch (error) {
    await clear();
    throw error;
  }
}

async function newHome(broker: TestBroker, capsule: string): Promise<Home> {
  const owner = await broker.capsule(capsule);
  const token = newToken('osw').reveal();
  const reply = await owner.create(capsule, 'app', token);
  if (reply.status !== 200) throw new Error(`create: ${reply.text}`);
  const cnf = digestOf(new Secret(token)).toString('base64url');
  return {
    ...{ capsule, owner, token },
    credentials: credentialsOf(owner, capsule),
    about: { capsule, app: 'app', cnf },
    at: ({ dataUrl }, grant) => granted(assistant(dataUrl, token), grant),
  };
}

/** Every request of its with the grant. */
function granted(one: Assistant, grant: string | undefined): Assistant {
  if (grant === undefined) return one;
  const call: Assistant['call'] = (method, path, { headers = {}, ...rest } = {}) =>
    one.call(method, path, { ...rest, headers: { 'platform-grant': grant, ...headers } });
  return {
    token: one.token,
    call,
    put: (key, body, headers = {}) => call('PUT', `/v1/objects/data/${key}`, { body, headers }),
    get: (key, headers = {}) => call('GET', `/v1/objects/data/${key}`, { headers }),
    post: (path, body) =>
      call('POST', path, { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  };
}

/** A grant for the set at this generation. */
export function grantOf(
  issuer: Issuer,
  home: Home,
  set: { readonly set_id: string; readonly generation: number },
  change: Partial<GrantClaims> = {},
): Promise<string> {
  return issuer.sign(claimsFor({ ...home.about, ref: set.set_id, gen: set.generation, ...change }));
}
