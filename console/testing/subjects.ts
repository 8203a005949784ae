import { definitionDigest, definitionOf } from '@space/manifests';
import { manifest } from '../../operator/testing/manifest.ts';
import type { TestEnvironment } from './environment.ts';

/** What an attacker would put into whatever a manifest lets through. */
export const HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>\u202egnp.exe p\u0430ypal';

const ROOT = '/apis/platform.space/v1/namespaces/home';

export const condition = (type: string, status: string, reason: string, message = 'As it is.') => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: '2026-11-22T20:00:00Z',
  observedGeneration: 1,
});

export interface Subjects {
  /** Creates a Capsule with these conditions. */
  capsule(name: string, spec?: object, conditions?: readonly object[], status?: object): Promise<void>;
  /** With annotations that may be written as it is made, and at no other time. */
  assistant(
    name: string,
    spec: object,
    conditions?: readonly object[],
    status?: object,
    annotations?: object,
  ): Promise<void>;
  patch(plural: string, name: string, body: object): Promise<void>;
  // biome-ignore lint/suspicious/noExplicitAny: tests read what they assert on
  get(path: string): Promise<any>;
}

export const input = (changes: object = {}) => ({
  kind: 'password',
  label: 'Key of your bank',
  description: 'Reads rates.',
  help_url: 'https://help.bank.org/keys',
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/v1/rates' }],
  header: 'X-Api-Key',
  ...changes,
});

/** Where the value of that input goes and in what form, as the operator knows it. */
export const inputDigest = (): string =>
  definitionDigest(definitionOf(input() as Parameters<typeof definitionOf>[0]));

/** Capsules and Assistants as the operator would have left them, made by the cluster's administrator. */
export function subjects({ policyServer }: TestEnvironment): Subjects {
  const { client } = policyServer.server;
  const merge = 'application/merge-patch+json';
  const status = async (plural: string, name: string, body: object) =>
    void (await client.call({
      method: 'PATCH',
      path: `${ROOT}/${plural}/${name}/status`,
      contentType: merge,
      body: { status: { observedGeneration: 1, ...body } },
    }));
  return {
    async capsule(name, spec = {}, conditions = [condition('Ready', 'True', 'Ready')], more = {}) {
      const body = { apiVersion: 'platform.space/v1', kind: 'Capsule', metadata: { name }, spec };
      await policyServer.create(`${ROOT}/capsules`, body);
      await status('capsules', name, { conditions, ...more });
    },
    async assistant(
      name,
      spec,
      conditions = [condition('Ready', 'True', 'Ready')],
      more = {},
      annotations = {},
    ) {
      const all = { image: 'registry.test/x:1', manifest: manifest(name), ...spec };
      const body = {
        apiVersion: 'platform.space/v1',
        kind: 'Assistant',
        metadata: { name, annotations },
        spec: all,
      };
      await policyServer.create(`${ROOT}/assistants`, body);
      await status('assistants', name, { conditions, ...more });
    },
    async patch(plural, name, body) {
      await client.call({ method: 'PATCH', path: `${ROOT}/${plural}/${name}`, contentType: merge, body });
    },
    get: (path) => client.call({ method: 'GET', path }),
  };
}
