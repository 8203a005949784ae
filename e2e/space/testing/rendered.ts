import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { findTool } from '../../cluster/tools.ts';
import { CHART, SOME_IMAGES } from '../chart.ts';
import { type Finished, finish } from '../kube.ts';
import type { KubeObject } from '../kube-object.ts';

/** Helm, which renders the release `home` without a cluster. */
export interface Helm {
  /** With references of images that need not exist; `args` come later and override them. */
  template(...args: readonly string[]): Promise<Finished>;
  /** With no images except those in `args`. */
  templateBare(...args: readonly string[]): Promise<Finished>;
  render(...args: readonly string[]): Promise<readonly KubeObject[]>;
  close(): Promise<void>;
}

export async function startHelm(): Promise<Helm> {
  const directory = await mkdtemp(join(tmpdir(), 'space-rendered-'));
  const program = await findTool('helm', directory);
  const templateBare = (...args: readonly string[]) =>
    finish(program, ['template', 'home', CHART, '--namespace', 'home', ...args]);
  const template = (...args: readonly string[]) => templateBare(...SOME_IMAGES, ...args);
  return {
    template,
    templateBare,
    async render(...args) {
      const { code, stdout, stderr } = await template(...args);
      if (code !== 0) throw new Error(stderr);
      return objectsIn(stdout);
    },
    close: () => rm(directory, { recursive: true, force: true }),
  };
}

export const objectsIn = (yaml: string): readonly KubeObject[] =>
  parseAllDocuments(yaml).flatMap((document) => document.toJS() ?? []);

/** Each of the values as a flag. */
export const set = (...values: readonly string[]): readonly string[] =>
  values.flatMap((value) => ['--set', value]);

/** The chart's own pods, by the name of the object that creates them. */
// biome-ignore lint/suspicious/noExplicitAny: what a template renders has the types that the assertions give it.
export const podsIn = (objects: readonly KubeObject[]): ReadonlyMap<string, any> =>
  new Map(
    objects
      .filter(({ kind }) => ['Deployment', 'StatefulSet', 'Job', 'CronJob'].includes(kind))
      .map(({ metadata, spec }) => [
        metadata.name.replace(/-[0-9a-f]{8}$/, '-HASH'),
        (spec.jobTemplate?.spec ?? spec).template.spec,
      ]),
  );
