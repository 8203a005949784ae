/** Credentials that were valid at some time, tried again later at the service that each is for. */
import { kube, podsOf } from './space.ts';
import { until } from './until.ts';

export interface Credentials {
  /** The URL of an Assistant's database. */
  readonly url: string;
  /** The token for its files. */
  readonly token: string;
  /** The Capsule's principals for both brokers. */
  readonly principals: Readonly<Record<Broker, string>>;
}

type Broker = 'db-broker' | 'objectstore-broker';

/**
 * Exchanges all of them according to docs/rotation.md, and waits until the Assistant runs with the new ones. The previous
 * ones are then retired.
 */
export async function exchange(space: string, inside: string, capsule: string, id: string): Promise<void> {
  const before = await currentCredentials(space, inside, capsule, id);
  const pods = (await podsOf(inside, id)).map(({ metadata }) => metadata.uid);
  for (const [broker, ending] of [
    ['db-broker', 'database'],
    ['objectstore-broker', 'objectstore'],
  ] as const) {
    const principal = (await administer(space, broker, ['new-principal'])).trim();
    await administer(space, broker, ['replace-principal', capsule], principal);
    const data = JSON.stringify({ data: { principal: Buffer.from(principal).toString('base64') } });
    const of = ['secret', `capsule-${capsule}-${ending}`, '-n', `${space}-system`];
    await must(['patch', ...of, '--type=merge', '-p', data]);
  }
  await administer(space, 'db-broker', ['rotate', capsule, id]);
  await must(['delete', 'secret', `${id}-objectstore`, '-n', inside]);
  await must(['annotate', 'assistant', id, '-n', space, '--overwrite', 'platform.space/rotate=now']);
  await until('other credentials', async () => {
    const now = await currentCredentials(space, inside, capsule, id);
    return now.url !== before.url && now.token !== '' && now.token !== before.token;
  });
  await until('one pod with them, and none with the former', async () => {
    const [pod, ...others] = await podsOf(inside, id);
    const conditions: { type: string; status: string }[] = pod?.status.conditions ?? [];
    const isReady = conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
    return others.length === 0 && isReady && !pods.includes(pod?.metadata.uid);
  });
}

async function must(args: readonly string[], input?: string): Promise<string> {
  const { code, stdout, stderr } = await kube.run(args, input);
  if (code !== 0) throw new Error(stderr || stdout);
  return stdout;
}

const administer = (space: string, broker: Broker, command: readonly string[], input?: string) =>
  must(
    ['exec', '-i', '-n', `${space}-services`, `deploy/${broker}`, '--', 'node', '/app/admin.mjs', ...command],
    input,
  );

const secretOf = async (name: string, key: string, namespace: string) => {
  const secret = await kube.get('secret', name, namespace);
  return Buffer.from(secret?.['data'][key] ?? '', 'base64').toString();
};

export async function currentCredentials(
  space: string,
  inside: string,
  capsule: string,
  id: string,
): Promise<Credentials> {
  const principal = (ending: string) =>
    secretOf(`capsule-${capsule}-${ending}`, 'principal', `${space}-system`);
  return {
    url: await secretOf(`${id}-database`, 'DATABASE_URL', inside),
    token: await secretOf(`${id}-objectstore`, 'token', inside),
    principals: {
      'db-broker': await principal('database'),
      'objectstore-broker': await principal('objectstore'),
    },
  };
}

/** Runs in a broker's own container, whose listeners are also on loopback. The certificate names the Service. */
const ASK = `
  let text = '';
  process.stdin.on('data', (chunk) => { text += chunk; }).on('end', async () => {
    const { url, method, token, body } = JSON.parse(text);
    const headers = { authorization: 'Bearer ' + token, ...(body ? { 'content-type': 'application/json' } : {}) };
    const answer = await fetch(url, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    console.log(answer.status);
  });
`;

async function statusOf(space: string, broker: Broker, request: object): Promise<number> {
  const program = ['env', 'NODE_TLS_REJECT_UNAUTHORIZED=0', 'node', '-e', ASK];
  const exec = ['exec', '-i', '-n', `${space}-services`, `deploy/${broker}`, '--', ...program];
  const { stdout, stderr } = await kube.run(exec, JSON.stringify(request));
  if (stdout === '') throw new Error(stderr);
  return Number(stdout.trim());
}

async function opensDatabase(space: string, url: string): Promise<boolean> {
  const { username, password, pathname } = new URL(url);
  const to = `host=127.0.0.1 sslmode=require user=${username} password=${password} dbname=${pathname.slice(1)}`;
  const psql = ['psql', '-XAtqc', 'SELECT 1', to];
  const exec = ['exec', '-n', `${space}-services`, 'postgres-0', '-c', 'backup', '--', ...psql];
  const { code, stderr } = await kube.run(exec);
  if (code === 0) return true;
  // Any other error would be mistaken for a refusal.
  if (!/password authentication failed|does not exist/.test(stderr)) throw new Error(stderr);
  return false;
}

/** The names of those that are still accepted. @throws if a service neither accepts nor refuses one */
export async function acceptedOf(
  space: string,
  held: Credentials,
  capsule: string,
  id: string,
): Promise<readonly string[]> {
  const post = (broker: Broker) =>
    statusOf(space, broker, {
      url: 'https://127.0.0.1:8080/v1/capsules/apps/usage',
      method: 'POST',
      token: held.principals[broker],
      body: { capsule_id: capsule, app_id: id },
    });
  const files = statusOf(space, 'objectstore-broker', {
    url: 'https://127.0.0.1:8081/v1/objects/data/statement',
    method: 'GET',
    token: held.token,
  });
  const answers: Record<string, boolean | number> = {
    'the URL of a database': await opensDatabase(space, held.url),
    'the token of files': await files,
    'the principal at db-broker': await post('db-broker'),
    'the principal at objectstore-broker': await post('objectstore-broker'),
  };
  return Object.entries(answers).flatMap(([name, answer]) => {
    if (answer === true || answer === 200) return [name];
    if (answer === false || answer === 401 || answer === 403) return [];
    throw new Error(`${name}: ${answer}`);
  });
}

export const EVERY_CREDENTIAL = [
  'the URL of a database',
  'the token of files',
  'the principal at db-broker',
  'the principal at objectstore-broker',
];
