import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { makePki, type TestPki } from '../../testing/certificates.ts';
import { type OutsideHost, openCluster } from '../cluster/index.ts';
import { finish } from '../space/kube.ts';
import { isRolledOut } from '../space/rollout.ts';
import { REACH, reached } from './support/reach.ts';
import {
  assistant,
  capsule,
  deleteCapsules,
  installed,
  kube,
  ledgerOf,
  namespaceOf,
  ready,
  runningPod,
  services,
  unique,
  untilCondition,
} from './support/space.ts';
import { until } from './support/until.ts';

const ALLOWED = 'rates.outside-bank.org';
const INPUT = 'api.outside-bank.org';
const OTHER = 'other.outside-bank.org';
const GATEWAY = 'platform-assistant-egress';
const VALUE = 'sk_live_canary_7d21c0e4';
const EXAMPLE = parse(
  readFileSync(resolve(import.meta.dirname, '../../manifests/examples/ledger-bank.yaml'), 'utf8'),
);
const CHART = resolve(import.meta.dirname, '../../charts/space');

const cluster = await openCluster(installed.cluster);
const node = cluster?.node;

/** Fetches each URL in the Assistant's own pod, and returns how that ended: the body, or the error's code. */
const FETCH = `
  const tried = process.argv.slice(1).map(async (line) => {
    const [name, token] = line.split(' ');
    const url = name.startsWith('INPUT_') ? process.env[name.split('/')[0]] + name.slice(name.indexOf('/')) : name;
    const headers = token ? { authorization: 'Bearer ' + process.env[token] } : {};
    const signal = AbortSignal.timeout(60_000);
    const answer = await fetch(url, { headers, signal }).then((r) => r.text(), (e) => String(e.cause?.code ?? e.name));
    return [line, answer];
  });
  Promise.all(tried).then((ended) => console.log(JSON.stringify(Object.fromEntries(ended))));
`;
/** Uses the stored input, and returns the strings in its own heap that look like the value. */
const HEAP = `
  const headers = { authorization: 'Bearer ' + process.env.EGRESS_TOKEN };
  fetch(process.env.INPUT_BANK_URL + '/v1/rates?base=EUR', { headers }).then((r) => r.text()).then(async (answer) => {
    let heap = '';
    for await (const chunk of require('node:v8').getHeapSnapshot()) heap += chunk;
    const like = (what) => heap.match(what)?.[0] ?? '';
    console.log(JSON.stringify({ answer, own: like(/2026-1[1]-20/), value: like(/sk_l[i]ve_can[a]ry_[0-9a-f]*/) }));
  });
`;
/** Holds a tunnel through each replica until it is ended, and returns how far each had come. */
const TUNNELS = `
  const { connect } = require('node:net');
  const tls = require('node:tls');
  const [host, ...replicas] = process.argv.slice(1);
  const credential = Buffer.from('egr:' + process.env.EGRESS_TOKEN).toString('base64');
  const hold = (replica) => new Promise((done) => {
    let far = 'nowhere';
    const raw = connect(3128, replica, () =>
      raw.write('CONNECT ' + host + ':443 HTTP/1.1\\r\\nhost: ' + host + '\\r\\nproxy-authorization: Basic ' + credential + '\\r\\n\\r\\n'));
    raw.on('error', () => {}).on('close', () => done([replica, far]));
    raw.once('data', () => {
      far = 'tunnel';
      const socket = tls.connect({ socket: raw, servername: host });
      socket.on('error', () => {}).on('data', () => { far = 'answered' });
      socket.write('GET /held/' + replica + ' HTTP/1.1\\r\\nhost: ' + host + '\\r\\n\\r\\n');
    });
  });
  Promise.all(replicas.map(hold)).then((ended) => console.log(JSON.stringify(Object.fromEntries(ended))));
`;

const RATES = { base: 'EUR', date: '2026-11-20', rates: { USD: '1.25', JPY: '172.3' } };
const CALL = 'INPUT_BANK_URL/v1/rates?base=EUR EGRESS_TOKEN';

describe.skipIf(node === undefined)(
  'an Assistant and the world outside (needs a host that tests may make)',
  () => {
    const home = unique('egress');
    const name = `${home}-ledger`;
    let pki: TestPki;
    let outside: OutsideHost;
    let namespace: string;

    /** The example that asks a bank for exchange rates. Here it may also reach some hosts by a tunnel. */
    const ledger = (hosts: readonly string[], changes: object = {}) => {
      const spec = structuredClone(EXAMPLE.spec);
      spec.manifest.network.allowed_hosts = hosts;
      Object.assign(spec.manifest.stored_inputs.bank, changes);
      const storedInputs = { bank: { secretKeyRef: { name: `${home}-bank`, key: 'value' } } };
      return assistant(
        home,
        'ledger',
        { ...spec, capsule: home, image: installed.image, command: undefined, storedInputs },
        name,
      );
    };

    /** Sets the test's CA and the names of the outside host, or the chart's defaults. */
    async function upgradeGateway(values: object): Promise<void> {
      const helm = await cluster?.tool('helm');
      if (helm === undefined) throw new Error('no helm');
      const args = [
        '--kubeconfig',
        installed.kubeconfig,
        '-n',
        installed.namespace,
        'upgrade',
        installed.space,
        CHART,
      ];
      const flags = [
        '--reuse-values',
        '--skip-crds',
        '--description',
        'with an outside host',
        '--force-conflicts',
        '-f',
        '-',
      ];
      const { code, stderr } = await finish(helm, [...args, ...flags], JSON.stringify({ egress: values }));
      if (code !== 0) throw new Error(stderr);
      await until('the gateway to be rolled out', async () => {
        const deployment = await kube.get('deployment', GATEWAY, services);
        return deployment !== undefined && isRolledOut(deployment);
      });
    }

    async function inPod(script: string, ...args: readonly string[]) {
      const pod = (await runningPod(namespace, 'ledger')).metadata.name;
      const shell = 'cat > /tmp/ca.pem; NODE_EXTRA_CA_CERTS=/tmp/ca.pem exec node -e "$0" "$@"';
      const { stdout, stderr } = await kube.exec(
        namespace,
        pod,
        ['sh', '-c', shell, script, ...args],
        pki.authority,
      );
      if (stdout === '') throw new Error(stderr);
      return JSON.parse(stdout);
    }
    const fetched = (...urls: readonly string[]): Promise<Record<string, string>> => inPod(FETCH, ...urls);

    const replicas = () => kube.list('pods', services, 'platform.space/component=egress');
    /** The addresses of replicas that accept new callers; one that the rollout replaced may still be draining. */
    const serving = async () =>
      (await replicas())
        .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
        .map((pod) => pod.status?.podIP);
    const reach = async (targets: readonly string[]) => {
      const pod = (await runningPod(namespace, 'ledger')).metadata.name;
      const { stdout, stderr } = await kube.exec(namespace, pod, [...REACH, ...targets]);
      if (stdout === '') throw new Error(stderr);
      return reached(stdout);
    };
    /** The same from the node, to which no network policy applies. */
    const reachFromNode = async (targets: readonly string[]) => {
      const [program, ...args] = (node as NonNullable<typeof node>).command([...REACH, ...targets]);
      return reached((await finish(program, args)).stdout);
    };

    beforeAll(async () => {
      pki = await makePki();
      outside = await (node as NonNullable<typeof node>).outside({
        ports: [443],
        udp: [443],
        tls: { port: 443, ...(await pki.issue(ALLOWED, INPUT, OTHER)) },
        answers: {
          '/v1/rates': {
            header: ['x-api-key', VALUE],
            body: JSON.stringify({ ...RATES, asked_with: VALUE }),
          },
        },
      });
      const [address] = outside.addresses;
      await kube.apply(capsule(home), ledger([ALLOWED]));
      await upgradeGateway({
        extraCA: pki.authority,
        hosts: { [ALLOWED]: address, [INPUT]: address, [OTHER]: address },
        replicas: 2,
        // The bank echoes the value in all its answers.
        reflections: 1_000,
      });
      namespace = await namespaceOf(home);
    });

    afterAll(async () => {
      await Promise.all([
        deleteCapsules(home),
        upgradeGateway({
          extraCA: '',
          hosts: { [ALLOWED]: null, [INPUT]: null, [OTHER]: null },
          replicas: installed.severalNodes ? 2 : 1,
          reflections: 5,
        }),
      ]);
      await kube.remove('secret', `${home}-bank`, installed.namespace);
      await outside[Symbol.asyncDispose]();
      await pki.remove();
    });

    it('is not scheduled before somebody entered its stored input', async () => {
      await untilCondition('assistant', name, 'InputsBound', 'False', 'InputSecretNotFound');
      await kube.apply({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: {
          name: `${home}-bank`,
          namespace: installed.namespace,
          labels: { 'platform.space/capsule': home },
        },
        type: 'platform.space/stored-input',
        stringData: { value: VALUE },
      });
      await ready('assistant', name);
    });

    it('asks the bank for exchange rates with a key that it never sees', async () => {
      const ask = ledgerOf(namespace);
      await until(
        'the ledger to be reached through its Service',
        async () => (await ask('/healthz')) !== undefined,
      );
      await ask('/entries', {
        description: 'Savings in yen',
        lines: [
          { account: 'assets:savings', currency: 'JPY', amount: '1723' },
          { account: 'equity:opening', currency: 'JPY', amount: '-1723' },
        ],
      });
      expect(await ask('/worth?in=EUR')).toMatchObject({ date: RATES.date, worth: '10.00' });
      const asked = (await outside.requests()).filter(({ url }) => url === '/v1/rates?base=EUR');
      expect(asked.map(({ headers }) => headers['x-api-key'])).toEqual([VALUE]);
      // No request is sent for a currency that the manifest's route does not name.
      await expect(ask('/worth?in=SEK')).rejects.toThrow();
      expect((await outside.requests()).map(({ url }) => url)).not.toContain('/v1/rates?base=SEK');
    });

    it('has the value nowhere: not in environment, files, heap or objects, and not in what the bank echoes', async () => {
      const { answer, own, value } = await inPod(HEAP);
      expect(JSON.parse(answer)).toEqual({ ...RATES, asked_with: '*'.repeat(VALUE.length) });
      expect([own, value]).toEqual([RATES.date, '']);
      const pod = (await runningPod(namespace, 'ledger')).metadata.name;
      const look = await kube.exec(namespace, pod, [
        'sh',
        '-c',
        'env; cat /proc/*/environ; find /etc/space /tmp -type f -exec cat {} +; true',
      ]);
      const objects = await kube.run(['get', 'all,secrets,configmaps', '-n', namespace, '-o', 'json']);
      for (const form of [VALUE, Buffer.from(VALUE).toString('base64')]) {
        expect(look.stdout).not.toContain(form);
        expect(objects.stdout).not.toContain(form);
      }
      expect(look.stdout).toContain('INPUT_BANK_URL=http://assistant-egress/i/bank');
    });

    it('reaches the host that its manifest allows, and no other', async () => {
      const walled = (await runningPod(namespace, 'ledger')).status.podIP;
      const denied = 'INPUT_BANK_URL/v1/admin EGRESS_TOKEN';
      const [allowed, other, bank] = [
        `https://${ALLOWED}/`,
        `https://${OTHER}/`,
        `https://${INPUT}/v1/rates`,
      ];
      const isAllowed = (ended: Record<string, string>, url: string) => ended[url]?.includes('outside saw');
      // Again until the allowed one is reached, which may take more than one try on a busy node, or another one.
      const ended = await until('the allowed host to be reached', async () => {
        const all = await fetched(allowed, other, bank, denied);
        return [allowed, other, bank].some((url) => isAllowed(all, url)) && all;
      });
      expect(ended[allowed]).toContain('outside saw ');
      expect(ended[allowed]).not.toContain(walled);
      expect(ended[other]).not.toContain('outside saw');
      // The host of its stored input, too, can be reached only through the stored input.
      expect(ended[bank]).not.toContain('outside saw');
      expect(ended[denied]).toContain('"code":"route_denied"');
    });

    it('has no other way out: no address, no DNS, no UDP, no ping, no API server, no metadata', async () => {
      const dns = (await kube.get('service', 'kube-dns', 'kube-system'))?.spec.clusterIP;
      const api = (await kube.get('service', 'kubernetes', 'default'))?.spec.clusterIP;
      const [gateway] = await serving();
      const [address, second] = outside.addresses;
      const targets = [
        ...[`${address} 443`, `${second} 443`, `${dns} 53`, `${api} 443`, `${outside.metadata} 80`].map(
          (at) => `tcp ${at}`,
        ),
        ...[`${dns} 53`, `${address} 443`, `${second} 443`].map((at) => `udp ${at}`),
        ...[address, second, outside.metadata].map((at) => `icmp ${at}`),
      ];
      expect(targets.join()).not.toContain('undefined');
      // Each target answers a caller that policies do not restrict, such as the node.
      const answers = (how: string) => ['connected', 'answered'].includes(how);
      const silent = new Set(targets);
      await until('each target to answer the node', async () => {
        const free = await reachFromNode([...silent]);
        for (const [target, how] of Object.entries(free)) if (answers(how)) silent.delete(target);
        if (silent.size > 0) throw new Error([...silent].join());
        return true;
      });

      // The gateway can be reached at the port for Assistants, and the pod's own loopback shows that its ICMP works.
      const own = [`tcp ${gateway} 3128`, 'icmp 127.0.0.1'];
      const inside = [
        `tcp ${gateway} 8080`,
        `tcp ${gateway} 9090`,
        'name kubernetes.default.svc.cluster.local',
      ];
      // Again until it has reached its own, which may take more than one try on a busy node, or anything else.
      const open = await until('its own targets to be reached', async () => {
        const ended = await reach([...own, ...inside, ...targets]);
        expect(Object.keys(ended)).toHaveLength(own.length + inside.length + targets.length);
        const met = Object.keys(ended).filter(
          (target) => answers(ended[target] ?? '') || ended[target] === 'known',
        );
        const isAstray = met.some((target) => !own.includes(target));
        return own.every((target) => met.includes(target)) || isAstray ? met : undefined;
      });
      expect(open.toSorted()).toEqual(own.toSorted());
    });

    it('loses at once what a new manifest removes, in every replica, and its value if that would go elsewhere', async () => {
      const addresses = await serving();
      expect(addresses).toHaveLength(2);
      const held = inPod(TUNNELS, ALLOWED, ...addresses);
      await until('a tunnel through each replica', async () => {
        const arrived = (await outside.requests()).filter(({ url }) => url.startsWith('/held/'));
        return arrived.length === 2;
      });
      await kube.apply(ledger([], { routes: [{ method: 'GET', path: '/v1/other' }] }));
      expect(await held).toEqual(Object.fromEntries(addresses.map((one) => [one, 'answered'])));
      await untilCondition('assistant', name, 'InputsBound', 'False', 'InputNeedsReentry');
      const ended = await fetched(`https://${ALLOWED}/`, CALL);
      expect(ended[`https://${ALLOWED}/`]).not.toContain('outside saw');
      expect(ended[CALL]).toContain('"code":"not_found"');
      await kube.apply(ledger([ALLOWED]));
      await ready('assistant', name);
      await until('the tunnel to be open again', async () =>
        (await fetched(`https://${ALLOWED}/`))[`https://${ALLOWED}/`]?.includes('outside saw'),
      );
    });

    it('reaches nothing while the gateway is down, and continues when it is back', async () => {
      await kube.run(['scale', 'deployment', GATEWAY, '-n', services, '--replicas=0']);
      await untilCondition('assistant', name, 'EgressReady', 'False', 'GatewayUnavailable');
      await until('the last replica to be gone', async () => (await replicas()).length === 0);
      const [answers, down] = await Promise.all([
        fetched(`https://${ALLOWED}/`, CALL),
        reach([`tcp ${outside.addresses[0]} 443`, `icmp ${outside.addresses[0]}`]),
      ]);
      for (const answer of Object.values(answers)) expect(answer).not.toMatch(/outside saw|"rates"/);
      expect(Object.values(down).filter((how) => /connected|answered/.test(how))).toEqual([]);
      await kube.run(['scale', 'deployment', GATEWAY, '-n', services, '--replicas=2']);
      await ready('assistant', name);
      await until('both ways to be open again', async () => {
        const answers = await fetched(`https://${ALLOWED}/`, CALL);
        return answers[`https://${ALLOWED}/`]?.includes('outside saw') && answers[CALL]?.includes('"rates"');
      });
    });
  },
);
