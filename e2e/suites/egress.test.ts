import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../brokers/egress/testing/pki.ts';
import { type OutsideHost, openCluster } from '../cluster/index.ts';
import { finish } from '../space/kube.ts';
import { isRolledOut } from '../space/rollout.ts';
import {
  assistant,
  capsule,
  installed,
  kube,
  leave,
  manifest,
  namespaceOf,
  ready,
  runningPod,
  services,
  told,
  unique,
} from './support/space.ts';
import { until } from './support/until.ts';

const ALLOWED = 'rates.outside-bank.org';
const INPUT = 'api.outside-bank.org';
const OTHER = 'other.outside-bank.org';
const GATEWAY = 'platform-assistant-egress';
const VALUE = 'sk_live_canary_7d21c0e4';
const CHART = resolve(import.meta.dirname, '../../charts/space');

const cluster = await openCluster(installed.cluster);
const node = cluster?.node;

/** Fetches each URL in the Assistant's own pod and says how that ended: the body, or the error's code. */
const FETCH = `
  const tried = process.argv.slice(1).map(async (line) => {
    const [name, token] = line.split(' ');
    const url = name.startsWith('INPUT_') ? process.env[name.split('/')[0]] + name.slice(name.indexOf('/')) : name;
    const headers = token ? { authorization: 'Bearer ' + process.env[token] } : {};
    const signal = AbortSignal.timeout(8000);
    const answer = await fetch(url, { headers, signal }).then((r) => r.text(), (e) => String(e.cause?.code ?? e.name));
    return [line, answer];
  });
  Promise.all(tried).then((ended) => console.log(JSON.stringify(Object.fromEntries(ended))));
`;
const SOCKETS = `
  const { connect } = require('node:net');
  const { createSocket } = require('node:dgram');
  const { lookup, Resolver } = require('node:dns').promises;
  const tcp = (target) => new Promise((done) => {
    const [host, port] = target.split(' ');
    const socket = connect({ host, port: Number(port) });
    socket.setTimeout(3000, () => { socket.destroy(); done('timeout'); });
    socket.on('connect', () => { socket.destroy(); done('connected'); }).on('error', (e) => done(e.code));
  });
  const udp = (target) => new Promise((done) => {
    const [host, port] = target.split(' ');
    const socket = createSocket('udp4');
    socket.on('message', () => done('answered')).on('error', (e) => done(e.code));
    const query = Buffer.from('123401000001000000000000076578616d706c6503636f6d0000010001', 'hex');
    socket.send(query, Number(port), host);
    setTimeout(() => { socket.close(); done('silence'); }, 3000);
  });
  const icmp = () => { try { createSocket({ type: 'udp4' }); require('node:child_process').execFileSync('ping', ['-c1', '-W2', '203.0.113.10']); return 'answered'; } catch (e) { return 'none'; } };
  const names = (name) => lookup(name).then(() => 'known', (e) => e.code);
  const [tcps, udps] = process.argv[1].split('|').map((list) => list.split(','));
  (async () => console.log(JSON.stringify({
    tcp: Object.fromEntries(await Promise.all(tcps.map(async (t) => [t, await tcp(t)]))),
    udp: Object.fromEntries(await Promise.all(udps.map(async (t) => [t, await udp(t)]))),
    dns: await names('example.com'),
    icmp: icmp(),
  })))();
`;

describe.skipIf(node === undefined)(
  'an Assistant and the world outside (needs a host that tests may make)',
  () => {
    const home = unique('egress');
    const name = `${home}-traveller`;
    let pki: TestPki;
    let outside: OutsideHost;
    let namespace: string;

    const input = (changes: object = {}) => ({
      kind: 'password',
      label: 'Bank key',
      description: 'Reads exchange rates.',
      help_url: 'https://help.bank.org/keys',
      host: INPUT,
      routes: [{ method: 'GET', path: '/v1/rates' }],
      header: 'X-Api-Key',
      ...changes,
    });
    const traveller = (hosts: readonly string[], changes: object = {}) =>
      assistant(
        home,
        'traveller',
        {
          manifest: manifest('traveller', {
            network: { allowed_hosts: hosts },
            stored_inputs: { bank: input(changes) },
          }),
          storedInputs: { bank: { secretKeyRef: { name: `${home}-bank`, key: 'value' } } },
        },
        name,
      );

    /** With the test's authority and the outside host's names, or as the chart has it. */
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
      const pod = (await runningPod(namespace, 'traveller')).metadata.name;
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

    beforeAll(async () => {
      pki = await makePki();
      outside = await (node as NonNullable<typeof node>).outside([443], {
        port: 443,
        ...(await pki.issue(ALLOWED, INPUT, OTHER)),
      });
      const [address] = outside.addresses;
      await upgradeGateway({
        extraCA: pki.authority,
        hosts: { [ALLOWED]: address, [INPUT]: address, [OTHER]: address },
      });
      await kube.apply(capsule(home), traveller([ALLOWED]));
      namespace = await namespaceOf(home);
    });

    afterAll(async () => {
      await leave(home);
      await kube.remove('secret', `${home}-bank`, installed.namespace);
      await upgradeGateway({
        extraCA: '',
        hosts: { [ALLOWED]: null, [INPUT]: null, [OTHER]: null },
        replicas: 1,
      });
      await outside[Symbol.asyncDispose]();
      await pki.remove();
    });

    it('is not scheduled before somebody entered its stored input', async () => {
      await told('assistant', name, 'InputsBound', 'False', 'InputSecretNotFound');
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

    it('reaches the host that its manifest allows, and no other', async () => {
      const walled = (await runningPod(namespace, 'traveller')).status.podIP;
      const ended = await fetched(`https://${ALLOWED}/`, `https://${OTHER}/`, `https://${INPUT}/v1/rates`);
      expect(ended[`https://${ALLOWED}/`]).toContain('outside saw ');
      expect(ended[`https://${ALLOWED}/`]).not.toContain(walled);
      expect(ended[`https://${OTHER}/`]).not.toContain('outside saw');
      // Its stored input's host too is reached by the stored input alone.
      expect(ended[`https://${INPUT}/v1/rates`]).not.toContain('outside saw');
    });

    it('uses a stored input that it never sees', async () => {
      const call = 'INPUT_BANK_URL/v1/rates EGRESS_TOKEN';
      const answer = (await fetched(call))[call];
      expect(answer).toContain('outside saw ');
      expect(answer).toContain(`"x-api-key":"${'*'.repeat(VALUE.length)}"`);
      await until('the request to be known outside', async () =>
        outside.requests().some(({ url, headers }) => url === '/v1/rates' && headers['x-api-key'] === VALUE),
      );
      const pod = (await runningPod(namespace, 'traveller')).metadata.name;
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
      const denied = 'INPUT_BANK_URL/v1/admin EGRESS_TOKEN';
      expect((await fetched(denied))[denied]).toContain('"code":"route_denied"');
    });

    it('has no other way out: no address, no DNS, no UDP, no ping, no API server, no metadata', async () => {
      const dns = (await kube.get('service', 'kube-dns', 'kube-system'))?.spec.clusterIP;
      const api = (await kube.get('service', 'kubernetes', 'default'))?.spec.clusterIP;
      const [address] = outside.addresses;
      const gateway = (await kube.list('pods', services, 'platform.space/component=egress'))[0]?.status.podIP;
      const tcp = [
        `${address} 443`,
        `${dns} 53`,
        `${api} 443`,
        '169.254.169.254 80',
        `${gateway} 8080`,
        `${gateway} 9090`,
      ];
      expect(tcp.join()).not.toContain('undefined');
      const [ended, plain] = await Promise.all([
        inPod(SOCKETS, `${tcp.join(',')}|${dns} 53,${address} 443`),
        fetched('http://203.0.113.10/'),
      ]);
      for (const [target, how] of Object.entries(ended.tcp)) expect([target, how]).not.toContain('connected');
      for (const [target, how] of Object.entries(ended.udp)) expect([target, how]).not.toContain('answered');
      expect(ended.dns).not.toBe('known');
      expect(ended.icmp).toBe('none');
      expect(plain['http://203.0.113.10/']).not.toContain('outside saw');
    });

    it('loses at once what a new manifest takes away, and its value when that would go elsewhere', async () => {
      await kube.apply(traveller([], { routes: [{ method: 'GET', path: '/v1/other' }] }));
      await told('assistant', name, 'InputsBound', 'False', 'InputNeedsReentry');
      const call = 'INPUT_BANK_URL/v1/rates EGRESS_TOKEN';
      const ended = await fetched(`https://${ALLOWED}/`, call);
      expect(ended[`https://${ALLOWED}/`]).not.toContain('outside saw');
      expect(ended[call]).toContain('"code":"not_found"');
      await kube.apply(traveller([ALLOWED]));
      await ready('assistant', name);
      await until('the tunnel to be open again', async () =>
        (await fetched(`https://${ALLOWED}/`))[`https://${ALLOWED}/`]?.includes('outside saw'),
      );
    });

    it('reaches nothing while the gateway is down, and goes on when it is back', async () => {
      await kube.run(['scale', 'deployment', GATEWAY, '-n', services, '--replicas=0']);
      await told('assistant', name, 'EgressReady', 'False', 'GatewayUnavailable');
      const call = 'INPUT_BANK_URL/v1/rates EGRESS_TOKEN';
      for (const answer of Object.values(await fetched(`https://${ALLOWED}/`, call)))
        expect(answer).not.toContain('outside saw');
      await kube.run(['scale', 'deployment', GATEWAY, '-n', services, '--replicas=1']);
      await ready('assistant', name);
      await until('both ways to be open again', async () => {
        const answers = Object.values(await fetched(`https://${ALLOWED}/`, call));
        return answers.every((answer) => answer.includes('outside saw'));
      });
    });
  },
);
