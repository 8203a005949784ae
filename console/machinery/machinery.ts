import type { Certificate, CertificatesOf } from './certificates.ts';
import type { Listed } from './may-list.ts';
import { type Node, nodesOf, type RuntimeClass, type Sandbox } from './nodes.ts';
import { type Probe, probesOf } from './probes.ts';
import { type Program, programsOf } from './programs.ts';
import type { Reader } from './reader.ts';

/** The parts of the Space itself, as far as a person may read them; a part that they may not read is undefined. */
export interface Machinery {
  /** When it was read. */
  readonly at: Date;
  readonly programs: Listed<Program> | undefined;
  readonly probes: Listed<Probe> | undefined;
  readonly nodes: Listed<Node> | undefined;
  readonly classes: Listed<RuntimeClass> | undefined;
  readonly certificates: readonly Certificate[] | undefined;
}

/** For people who may see none of it. */
export const UNSEEN: Machinery = {
  at: new Date(0),
  programs: undefined,
  probes: undefined,
  nodes: undefined,
  classes: undefined,
  certificates: undefined,
};

/** `isFresh` is set by pages that show it; other pages only count problems. */
export type MachineryOf = (reader: Reader, isFresh: boolean) => Promise<Machinery>;

interface MachineryOptions {
  readonly sandbox: Sandbox;
  readonly certificatesOf: CertificatesOf;
  readonly now: () => Date;
}

/**
 * Milliseconds for which it is reused: a cluster may have a thousand nodes, which are not read on every page for the
 * number in its sidebar.
 */
const KEPT_MS = 15_000;
const MOST_KEPT = 64;
/** With more nodes, one of them changes nearly every second, and with it the pages that show them. */
const MANY_NODES = 500;
const hasMany = ({ nodes }: Machinery) => (nodes?.items.length ?? 0) > MANY_NODES;

/** Reads it with the person's rights, and keeps it for their session for some seconds. */
export function machineryOf({ sandbox, certificatesOf, now }: MachineryOptions): MachineryOf {
  const kept = new Map<string, { readonly until: number; readonly machinery: Promise<Machinery> }>();
  return (reader, isFresh) => {
    const { id } = reader.session;
    const known = kept.get(id);
    const current = known !== undefined && known.until > now().getTime() ? known : undefined;
    if (current !== undefined && !isFresh) return current.machinery;
    const machinery = readMachinery(reader, { sandbox, certificatesOf, now }, current?.machinery);
    kept.delete(id);
    kept.set(id, { until: current?.until ?? now().getTime() + KEPT_MS, machinery });
    // A failed read is repeated.
    machinery.catch(() => kept.delete(id));
    for (const [oldest] of kept) {
      if (kept.size <= MOST_KEPT) break;
      kept.delete(oldest);
    }
    return machinery;
  };
}

async function readMachinery(
  reader: Reader,
  { sandbox, certificatesOf, now }: MachineryOptions,
  known?: Promise<Machinery>,
): Promise<Machinery> {
  const before = await known?.catch(() => undefined);
  const [programs, probes, { nodes, classes }] = await Promise.all([
    programsOf(reader),
    probesOf(reader),
    before !== undefined && hasMany(before) ? before : nodesOf(reader, sandbox),
  ]);
  // They are not secret, but the API server decides who may see the Space's programs.
  const certificates = programs === undefined ? undefined : await certificatesOf();
  return { at: now(), programs, probes, nodes, classes, certificates };
}
