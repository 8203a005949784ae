import { resolve } from 'node:path';
import { build } from 'esbuild';
import { makePki } from '../../../testing/certificates.ts';
import { type Forwarding, portForward } from '../../space/port-forward.ts';
import { installed, kube } from './space.ts';
import { until } from './until.ts';

/** An OIDC issuer in a pod of the cluster that belongs to no Space. */
export interface Issuer {
  readonly namespace: string;
  readonly url: string;
  /** PEM of the CA that signed its certificate. */
  readonly authority: string;
  forward(): Promise<Forwarding>;
}

const PORT = 8443;
/** Some of the bundled packages are CommonJS modules. */
const REQUIRE = "import{createRequire}from'node:module';const require=createRequire(import.meta.url);";

async function program(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [resolve(import.meta.dirname, '../../../console/testing/issuer-in-a-pod.ts')],
    ...{
      bundle: true,
      minify: true,
      keepNames: true,
      write: false,
      platform: 'node',
      format: 'esm',
      logLevel: 'error',
    },
    banner: { js: REQUIRE },
  });
  return outputFiles?.[0]?.text ?? '';
}

/** Starts an issuer that signs everybody in as this person, and redirects only to this address. */
export async function startIssuer(
  namespace: string,
  {
    redirect,
    person,
    groups,
  }: { readonly redirect: string; readonly person: string; readonly groups: string },
): Promise<Issuer> {
  const host = `issuer.${namespace}.svc`;
  const url = `https://${host}:${PORT}`;
  const pki = await makePki();
  const { cert, key } = await pki.issue(host);
  await pki.remove();
  const metadata = { name: 'issuer', namespace };
  const environment = { ISSUER: url, REDIRECT: redirect, PERSON: person, GROUPS: groups };
  const container = {
    name: 'issuer',
    image: installed.image,
    imagePullPolicy: 'IfNotPresent',
    command: ['node', '/program/main.mjs'],
    env: Object.entries(environment).map(([name, value]) => ({ name, value })),
    readinessProbe: { tcpSocket: { port: PORT }, periodSeconds: 1 },
    volumeMounts: ['program', 'tls'].map((name) => ({ name, mountPath: `/${name}`, readOnly: true })),
  };
  const volumes = [
    { name: 'program', configMap: { name: 'issuer' } },
    { name: 'tls', secret: { secretName: 'issuer' } },
  ];
  await kube.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'main.mjs': await program() } },
    { apiVersion: 'v1', kind: 'Secret', metadata, stringData: { 'tls.crt': cert, 'tls.key': key } },
    {
      ...{ apiVersion: 'v1', kind: 'Service', metadata },
      spec: { selector: { app: 'issuer' }, ports: [{ port: PORT }] },
    },
    {
      ...{ apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, labels: { app: 'issuer' } } },
      spec: {
        ...{ automountServiceAccountToken: false, terminationGracePeriodSeconds: 0, volumes },
        containers: [container],
      },
    },
  );
  await until('the issuer to listen', async () => {
    const pod = await kube.get('pod', 'issuer', namespace);
    return pod?.['status']?.containerStatuses?.[0]?.ready === true;
  });
  return {
    namespace,
    url,
    authority: pki.authority,
    forward: () => portForward(installed, namespace, 'issuer', PORT),
  };
}
