import { EGRESS_HOST, egressSecretName } from '../names.ts';

/** What the pods of an Assistant need to reach the gateway. */
export interface EgressBinding {
  /** The address of the gateway's Service. */
  readonly address: string;
  readonly principalDigest: string;
  readonly inputs: readonly string[];
}

/** What is added to a pod that may reach hosts outside the cluster. */
export interface EgressParts {
  readonly env: readonly { readonly name: string; readonly [source: string]: unknown }[];
  readonly hostAliases: readonly { readonly ip: string; readonly hostnames: readonly string[] }[];
  /** Sources of the projected volume with credentials. */
  readonly sources: readonly object[];
}

const OWN_HOST = ['localhost', '127.0.0.1', '::1'];

/**
 * Environment and files for allowed hosts and stored inputs; they contain no value of an input. `services` are the
 * names that the pod reaches directly and not through the proxy.
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
      // Some programs read the variable in lower case only, others in upper case only.
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

/** `INPUT_<KEY>_URL`, with hyphens as underscores. A key contains no underscore, so no two keys share a variable. */
const inputVariable = (key: string) => `INPUT_${key.toUpperCase().replaceAll('-', '_')}_URL`;
