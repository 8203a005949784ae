import { EGRESS_HOST, egressSecretName } from '../names.ts';

/** What an Assistant's pods need to reach the gateway. */
export interface EgressBinding {
  /** The address of the gateway's Service. */
  readonly address: string;
  readonly principalDigest: string;
  readonly inputs: readonly string[];
}

/** What a pod that may reach the outside has more than others. */
export interface EgressParts {
  readonly env: readonly { readonly name: string; readonly [source: string]: unknown }[];
  readonly hostAliases: readonly { readonly ip: string; readonly hostnames: readonly string[] }[];
  /** Sources of the volume of credentials. */
  readonly sources: readonly object[];
}

const OWN_HOST = ['localhost', '127.0.0.1', '::1'];

/**
 * Environment and files of allowed hosts and stored inputs: no value of an input is among them. `services` are the
 * names that the pod reaches by itself, not through the proxy.
 */
export function egressParts(
  id: string,
  binding: EgressBinding | undefined,
  services: readonly string[],
): EgressParts {
  if (!binding) return { env: [], hostAliases: [], sources: [] };
  const inside = [...services, EGRESS_HOST, ...OWN_HOST].join(',');
  const secret = egressSecretName(id);
  const fromSecret = (name: string, key: string) => ({
    name,
    valueFrom: { secretKeyRef: { name: secret, key } },
  });
  const url = `http://${EGRESS_HOST}`;
  return {
    env: [
      fromSecret('HTTPS_PROXY', 'HTTPS_PROXY'),
      // Some programs know the one spelling, some the other.
      fromSecret('https_proxy', 'HTTPS_PROXY'),
      { name: 'NO_PROXY', value: inside },
      { name: 'no_proxy', value: inside },
      { name: 'NODE_USE_ENV_PROXY', value: '1' },
      { name: 'EGRESS_URL', value: url },
      fromSecret('EGRESS_TOKEN', 'EGRESS_TOKEN'),
      ...binding.inputs.map((key) => ({ name: inputVariable(key), value: `${url}/i/${key}` })),
    ],
    hostAliases: [{ ip: binding.address, hostnames: [EGRESS_HOST] }],
    sources: [
      {
        secret: {
          name: secret,
          items: ['EGRESS_TOKEN', 'HTTPS_PROXY'].map((key) => ({ key, path: `credentials/${key}` })),
        },
      },
    ],
  };
}

/** `INPUT_<KEY>_URL`, hyphens as underscores; no key has an underscore, so no two are one. */
const inputVariable = (key: string) => `INPUT_${key.toUpperCase().replaceAll('-', '_')}_URL`;
