import { setTimeout as pause } from 'node:timers/promises';
import * as kinds from '../../../operator/kinds.ts';
import { LABEL } from '../../../operator/names.ts';
import type { ApiClient } from '../../../operator/runtime/client.ts';
import { isNotFound } from '../../../operator/runtime/errors.ts';
import { type KubeObject, pathOf } from '../../../operator/runtime/kube-object.ts';
import { eventually } from '../../eventually.ts';
import type { Killable } from './killer.ts';

/** A part of an installed Space: one pod with one container. */
export interface Part {
  readonly name: string;
  readonly namespace: string;
  readonly component: string;
  readonly meanRunMs: number;
  /** A component with a volume of its own must never have two pods, so the old one is awaited. */
  readonly single?: boolean;
}

interface Pod extends KubeObject {
  readonly status?: {
    readonly containerStatuses?: readonly {
      readonly containerID?: string;
      readonly ready: boolean;
      readonly restartCount: number;
      readonly lastState?: { readonly terminated?: { readonly exitCode: number; readonly reason?: string } };
    }[];
  };
}

/** The kills of parts, and restarts that were not caused by them. */
export interface Record {
  processes: number;
  pods: number;
  readonly ended: string[];
}

/** Kills the container's first process with SIGKILL on the node; false if the node cannot be entered. */
export type KillProcess = (podUid: string) => Promise<boolean>;

const UP_MS = 10 * 60_000;

/**
 * Kills a part by SIGKILL to its process, which the kubelet restarts at once. It would delay the second restart for up to
 * minutes, so a pod that was restarted once is killed and deleted, and another one replaces it.
 */
export function killablePod(
  client: ApiClient,
  part: Part,
  killProcess: KillProcess,
  record: Record,
): Killable {
  const { name, namespace, component, meanRunMs, single = false } = part;
  const selector = { labelSelector: `${LABEL.component}=${component}` };
  const path = pathOf(kinds.POD, namespace);
  /** Containers and pods that were killed, and the pods in which a container was. */
  const dead = new Set<string>();
  const restarts = new Map<string, number>();

  async function alive(): Promise<Pod | undefined> {
    const { items } = await client.call<{ items: readonly Pod[] }>({ method: 'GET', path, query: selector });
    return items.find(({ metadata, status }) => {
      const [container] = status?.containerStatuses ?? [];
      const known = [metadata.uid, container?.containerID].some((id) => id !== undefined && dead.has(id));
      return metadata.deletionTimestamp === undefined && container?.ready === true && !known;
    });
  }

  /** Records restarts that this soak did not cause; earlier ones are ignored. */
  function notice({ metadata, status }: Pod): void {
    const [container] = status?.containerStatuses ?? [];
    const uid = metadata.uid ?? '';
    const count = container?.restartCount ?? 0;
    const known = restarts.get(uid) ?? (restarts.size === 0 ? count : 0);
    restarts.set(uid, known);
    if (count <= known) return;
    const { exitCode, reason } = container?.lastState?.terminated ?? {};
    record.ended.push(`${name}, ${count - known} ×, the last with ${exitCode} ${reason ?? ''}`.trim());
    restarts.set(uid, count);
  }

  async function remove(pod: Pod): Promise<void> {
    const query = { gracePeriodSeconds: single ? '1' : '0' };
    await client
      .call({ method: 'DELETE', path: `${path}/${pod.metadata.name}`, query, body: {} })
      .catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
  }

  return {
    name,
    meanRunMs,
    async start() {
      const pod = await eventually(
        async () => {
          await pause(250); // five parts poll like this, so they leave time to others
          return alive();
        },
        { what: `${name} is up`, within: UP_MS },
      );
      notice(pod);
      return {
        gone: new Promise(() => {}),
        leave: async () => {},
        async kill() {
          // An upgrade may have replaced the pod.
          const victim = (await alive()) ?? pod;
          const uid = victim.metadata.uid ?? '';
          const [container] = victim.status?.containerStatuses ?? [];
          const again = container?.restartCount ?? 0;
          dead.add(container?.containerID ?? '');
          const killed = await killProcess(uid);
          if (killed && again === 0) {
            record.processes += 1;
            restarts.set(uid, 1);
            return;
          }
          record.pods += 1;
          dead.add(uid);
          await remove(victim);
        },
      };
    },
  };
}
