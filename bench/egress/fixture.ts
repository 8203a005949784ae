import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makePki } from '../../testing/certificates.ts';

/** The outside host, and the value of the stored input for it. */
export const HOST = 'api.bank.org';
/** The outside host of a caller that must not slow the other one down. */
export const OTHER_HOST = 'api.other.org';
export const VALUE = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';

/** A directory with the files that all programs of a benchmark need. */
export interface Fixture {
  readonly directory: string;
  /** File with the authority that certifies the host, and its PEM. */
  readonly authority: string;
  readonly authorityPem: string;
  /** Certificate and key of the host, and of the other one. */
  readonly leaf: { readonly cert: string; readonly key: string };
  readonly otherLeaf: { readonly cert: string; readonly key: string };
  remove(): Promise<void>;
}

export async function openFixture(): Promise<Fixture> {
  const directory = await mkdtemp(join(tmpdir(), 'space-bench-egress-'));
  const pki = await makePki();
  const [leaf, otherLeaf] = [await pki.issue(HOST), await pki.issue(OTHER_HOST)];
  const authority = join(directory, 'authority.pem');
  await writeFile(authority, pki.authority);
  return {
    directory,
    authority,
    authorityPem: pki.authority,
    leaf,
    otherLeaf,
    remove: async () => {
      await pki.remove();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
