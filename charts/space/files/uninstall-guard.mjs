// Ends with 1 while the Space has Capsules: without its operator nobody could take them down, and their finalizers
// would hold them, and the Space's namespace, for ever.
import { readFileSync } from 'node:fs';
import { request } from 'node:https';

const mounted = '/var/run/secrets/kubernetes.io/serviceaccount';
const read = (file) => readFileSync(`${mounted}/${file}`, 'utf8');
const namespace = process.env.SPACE_NAMESPACE;

const { status, text } = await new Promise((resolve, reject) => {
  const asked = request(
    {
      host: process.env.KUBERNETES_SERVICE_HOST,
      port: process.env.KUBERNETES_SERVICE_PORT_HTTPS,
      path: `/apis/platform.space/v1/namespaces/${namespace}/capsules`,
      headers: { authorization: `Bearer ${read('token')}`, accept: 'application/json' },
      ca: read('ca.crt'),
      timeout: 10_000,
    },
    (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk) => {
        body += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode, text: body }));
    },
  );
  asked.on('timeout', () => asked.destroy(new Error('the API server does not answer')));
  asked.on('error', reject);
  asked.end();
});

if (status === 404) {
  console.log('There is no kind Capsule any more.');
} else if (status !== 200) {
  console.error(`Capsules cannot be listed (HTTP ${status}), so nothing is uninstalled.`);
  process.exitCode = 1;
} else {
  const names = JSON.parse(text).items.map(({ metadata }) => metadata.name);
  if (names.length > 0) {
    console.error(
      `This Space still has Capsules: ${names.slice(0, 10).join(', ')}${names.length > 10 ? ', …' : ''}.\n` +
        `Delete them first, with their databases: kubectl -n ${namespace} delete capsules --all`,
    );
    process.exitCode = 1;
  }
}
