import { rename, writeFile } from 'node:fs/promises';
import { Encrypter } from 'age-encryption';
import type { SavedObject } from './collect.ts';
import type { BackupOptions } from './options.ts';

/** The first line of a Space's state; each further line is one object. */
export interface StateHeader {
  readonly format: 1;
  readonly space: string;
  readonly namespaces: { readonly release: string; readonly system: string; readonly services: string };
  /** The versions of the chart and of its brokers' registries. */
  readonly version: string;
  readonly schemas: BackupOptions['schemas'];
  readonly databaseHosts: BackupOptions['databaseHosts'];
  readonly taken: string;
  readonly objects: number;
}

/** Encrypts for the recipient, whose identity is nowhere in the cluster. */
export async function seal(
  header: StateHeader,
  objects: readonly SavedObject[],
  recipient: string,
): Promise<Uint8Array> {
  const encrypter = new Encrypter();
  encrypter.addRecipient(recipient);
  return encrypter.encrypt([header, ...objects].map((line) => `${JSON.stringify(line)}\n`).join(''));
}

/** Renames the complete file into place, so that no reader sees half of it. */
export async function put(file: string, sealed: Uint8Array): Promise<void> {
  await writeFile(`${file}.new`, sealed, { flush: true });
  await rename(`${file}.new`, file);
}
