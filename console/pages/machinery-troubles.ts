import type { Certificate } from '../machinery/certificates.ts';
import type { Machinery } from '../machinery/machinery.ts';
import type { Node } from '../machinery/nodes.ts';
import type { Probe } from '../machinery/probes.ts';
import type { Program } from '../machinery/programs.ts';
import type { Trouble } from './troubles.ts';

const DAY_MS = 86_400_000;
/** The threshold of the chart's alert, in days. */
export const SOON_DAYS = 30;

export const daysLeft = (ends: Date, now: Date): number =>
  Math.floor((ends.getTime() - now.getTime()) / DAY_MS);

/** Problems of the Space's own parts, as far as the person may see them. */
export function machineryTroubles({
  at,
  programs,
  probes,
  nodes,
  certificates = [],
}: Machinery): readonly Trouble[] {
  return [
    ...(programs?.items ?? []).flatMap(ofProgram),
    ...(nodes?.items ?? []).flatMap(ofNode),
    ...(probes?.items ?? []).flatMap(ofProbe),
    ...certificates.flatMap((one) => ofCertificate(one, at)),
  ];
}

function ofProgram({ kind, namespace, name, ready, wanted, since }: Program): readonly Trouble[] {
  if (ready >= wanted) return [];
  return [
    {
      ...{ kind: 'Program', name, capsule: '', since },
      reason: ready === 0 ? 'NothingReady' : 'TooFewReady',
      why: `${ready} of ${wanted} pods of ${kind} ${name} in ${namespace} are ready. See why: kubectl -n ${namespace} describe ${kind.toLowerCase()} ${name}`,
    },
  ];
}

function ofNode({ name, sandbox }: Node): readonly Trouble[] {
  if (sandbox !== 'missing') return [];
  return [
    {
      ...{ kind: 'Node', name, capsule: '', since: '' },
      reason: 'NodeWithoutHandler',
      why: 'Assistants may be scheduled on this node, but it has no sandbox, so they do not start there. Install gVisor on it, or let the runtime class select other nodes (sandbox.scheduling of the chart).',
    },
  ];
}

function ofProbe({ name, asks, node, verdict, found, at }: Probe): readonly Trouble[] {
  if (verdict === 'passed') return [];
  const where = node === '' ? 'It is not scheduled yet.' : `On node ${node}.`;
  const why =
    verdict === 'failed'
      ? `It tested ${asks} and failed. ${where} ${found === '' ? '' : `It found: ${found}`}`
      : `It tests ${asks}. ${where}`;
  const reason = verdict === 'failed' ? 'ProbeFailed' : 'ProbePending';
  return [{ kind: 'Probe', name, capsule: '', since: at, reason, why }];
}

function ofCertificate({ of, ends, advice }: Certificate, now: Date): readonly Trouble[] {
  if (ends === undefined) return [];
  const days = daysLeft(ends, now);
  if (days >= SOON_DAYS) return [];
  return [
    {
      ...{ kind: 'Certificate', name: of, capsule: '', since: '' },
      reason: days < 0 ? 'CertificateEnded' : 'CertificateEndsSoon',
      why: `${days < 0 ? 'It has expired' : `It expires in ${days === 1 ? '1 day' : `${days} days`}`}. ${advice}`,
    },
  ];
}
