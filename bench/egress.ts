import { cpus } from 'node:os';
import { startEnvoy } from './egress/envoy.ts';
import { startOurs } from './egress/gateway.ts';
import { CALLERS, type Measured, requests, tunnels } from './egress/load.ts';
import { startMitmproxy } from './egress/mitmproxy.ts';
import { startNginxInjection, startUpstream } from './egress/nginx.ts';
import { HOST, setStage } from './egress/stage.ts';
import { startSquid, startTinyproxy } from './egress/tunnels.ts';
import { watchProcess } from './objectstore/program.ts';
import type { Report, Row } from './report.ts';

const WARM = 5_000;

/**
 * The egress gateway beside what people use instead, all on this machine over loopback: a header put into requests on
 * the way to a TLS server that is kept alive, and tunnels to it. nginx, squid, tinyproxy and the load's wrk are Debian's,
 * Envoy and mitmproxy are PyPI's; all are unpacked into the cache. The gateway authenticates, matches routes, opens the
 * sealed value, scrubs and logs; the peers do none of that.
 */
export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const seconds = quick ? 2 : 15;
  const stage = await setStage();
  const closers: (() => Promise<void>)[] = [stage.remove];
  const rows: Row[] = [];
  const figures: Record<string, number> = {};
  const measure = async (
    what: string,
    key: string,
    cpuSeconds: () => number,
    load: (seconds: number) => Promise<Measured>,
  ) => {
    // Caches and compilers are warm after so many, however slow the machine is.
    for (let count = 0; count < (quick ? 1 : WARM); ) count += (await load(1)).count;
    const before = cpuSeconds();
    const { count, p50, p99, perSecond } = await load(seconds);
    const perCore = count / (cpuSeconds() - before);
    rows.push({
      what,
      n: count,
      p50_ms: round(p50),
      p99_ms: round(p99),
      'per second': Math.round(perSecond),
      'per second of its processor time': Math.round(perCore),
    });
    Object.assign(figures, {
      [`${key}_per_second`]: Math.round(perSecond),
      [`${key}_per_core`]: Math.round(perCore),
      [`${key}_p99_ms`]: round(p99),
    });
  };
  try {
    const upstream = await startUpstream(stage);
    closers.push(upstream.stop);
    const ours = await startOurs({ port: upstream.port, authority: stage.authority });
    closers.push(ours.stop);

    const url = `http://127.0.0.1:${ours.port}/i/bank/v1/rates`;
    const own = [`authorization: Bearer ${ours.principal}`, 'Host: assistant-egress'];
    await measure('injection, this gateway', 'inject_ours', ours.cpuSeconds, (s) => requests(url, own, s));
    for (const start of [startNginxInjection, startEnvoy, startMitmproxy]) {
      const peer = await start(stage, upstream.port);
      const { cpuSeconds } = watchProcess(peer.pid);
      const at = `http://127.0.0.1:${peer.port}/v1/rates`;
      try {
        await measure(`injection, ${peer.name}`, `inject_${peer.name}`, cpuSeconds, (s) =>
          requests(at, [`Host: ${HOST}`], s),
        );
      } finally {
        await peer.stop();
      }
    }

    const credentials = [`proxy-authorization: Bearer ${ours.principal}`];
    await measure('tunnel, this gateway', 'tunnel_ours', ours.cpuSeconds, (s) =>
      tunnels(ours.port, `${HOST}:443`, credentials, s),
    );
    for (const start of [startSquid, startTinyproxy]) {
      const peer = await start(stage, upstream.port);
      const { cpuSeconds } = watchProcess(peer.pid);
      try {
        await measure(`tunnel, ${peer.name}`, `tunnel_${peer.name}`, cpuSeconds, (s) =>
          tunnels(peer.port, `127.0.0.1:${upstream.port}`, [], s),
        );
      } finally {
        await peer.stop();
      }
    }
    for (const [kind, name] of [
      ['inject', 'nginx'],
      ['inject', 'envoy'],
      ['inject', 'mitmproxy'],
      ['tunnel', 'squid'],
      ['tunnel', 'tinyproxy'],
    ])
      for (const per of ['per_second', 'per_core'])
        figures[`${kind}_${per}_over_${name}`] = round(
          (figures[`${kind}_ours_${per}`] ?? Number.NaN) / (figures[`${kind}_${name}_${per}`] ?? Number.NaN),
        );
    return {
      title: `Egress over loopback, ${CALLERS} callers, answers of 1 KiB; caller, gateway and upstream share ${cpus().length} cores`,
      rows,
      figures,
    };
  } finally {
    for (const close of closers.toReversed()) await close();
  }
}

const round = (value: number) => Math.round(value * 100) / 100;
