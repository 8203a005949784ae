/**
 * Checks all images of a Space for both platforms, from the archive of `npm run air-gap`: every program and library
 * that an index leads to is built for the platform that the index names, and the programs for the other processor run
 * under Debian's qemu. The test takes three minutes when everything is built, and from empty caches some ten more of
 * one core: Debian's root file system two and a half, PostgreSQL's image five. So it is no part of `npm test`: `npx
 * vitest run --project nightly`, or `npm run nightly` with the suites.
 */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { emulatedIfNeeded } from '../cluster/images/emulation.ts';
import { type ArchivedImage, OWN, PLATFORMS, S3_SERVER, writeAirGap } from '../cluster/index.ts';
import { run } from '../cluster/run.ts';
import { createSteps } from '../progress/index.ts';
import { IMAGE_SOURCES } from '../space/images.ts';
import { type Unpacked, unpack } from './archive.ts';
import { programsIn } from './elf.ts';

const OTHER = OWN === 'linux/arm64' ? 'linux/amd64' : 'linux/arm64';
const architecture = OTHER.slice('linux/'.length);
const NAMES = [...IMAGE_SOURCES.map(({ name }) => name), S3_SERVER.name];
const ON_NODE = NAMES.filter((name) => !['space/postgres', 'space/attester', S3_SERVER.name].includes(name));

let directory: string;
let archive: string;
let carried: readonly ArchivedImage[];
let unpacked: Unpacked;
const seconds: Record<string, number> = {};

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  const result = await work();
  seconds[what] = Math.round((performance.now() - started) / 1000);
  return result;
}

const one = (name: string) => {
  const found = carried.find((image) => image.name === name);
  if (found === undefined) throw new Error(`the archive has no ${name}`);
  return found;
};

describe.skipIf(process.getuid?.() !== 0)('images for both platforms (needs root)', () => {
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'space-platforms-'));
    archive = join(directory, 'space.tar');
    const steps = createSteps();
    carried = await timed('archive', () => writeAirGap(IMAGE_SOURCES, archive, steps, PLATFORMS));
    steps.close();
    unpacked = await timed('unpacked', () => unpack(archive, directory));
  }, 3_600_000);
  afterAll(async () => {
    console.log(`seconds: ${JSON.stringify(seconds)}`);
    await rm(directory, { recursive: true, force: true });
  });

  it('the archive contains every image, under the digest in the values', () => {
    expect(carried.map(({ name }) => name)).toEqual(NAMES);
    expect([...unpacked.names].map(([reference, { digest }]) => [reference, digest])).toEqual(
      carried.map(({ reference, digest }) => [reference, digest]),
    );
  });

  it.each(NAMES.flatMap((name) => PLATFORMS.map((platform) => [name, platform] as const)))(
    '%s for %s is configured for it, and has no program for another',
    (name, platform) => {
      const images = unpacked.names.get(one(name).reference)?.images;
      expect([...(images?.keys() ?? [])].toSorted()).toEqual(PLATFORMS.toSorted());
      const image = images?.get(platform);
      expect(`${image?.config.os}/${image?.config.architecture}`).toBe(platform);
      const programs = (image?.layers ?? []).flatMap((layer) => [...programsIn(layer)]);
      expect(programs.length).toBeGreaterThan(0);
      expect(programs.filter(([, made]) => `linux/${made}` !== platform)).toEqual([]);
    },
  );

  describe(`programs for ${OTHER}`, () => {
    const storage = () => [
      ...['--root', join(directory, 'storage'), '--runroot', join(directory, 'runroot')],
      ...['--storage-driver', 'overlay'],
    ];
    const buildah = (...args: readonly string[]) =>
      run(emulatedIfNeeded(OTHER, ['buildah', ...storage(), ...args]), { log: join(directory, 'log') });
    const containers = new Map<string, string>();

    /** A container from the image in the archive, which is what a node would use. */
    async function containerOf(name: string): Promise<string> {
      const known = containers.get(name);
      if (known !== undefined) return known;
      const from = `oci-archive:${archive}:${one(name).reference}`;
      const container = `container-${containers.size}`;
      await buildah('from', '--arch', architecture, '--name', container, from);
      containers.set(name, container);
      return container;
    }

    /**
     * Runs a program as the image's own user, in its directory and with its variables; returns the exit code and all
     * output.
     */
    async function says(name: string, argv?: readonly string[]): Promise<readonly [number, string]> {
      const container = await containerOf(name);
      const { config } = unpacked.names.get(one(name).reference)?.images.get(OTHER)?.config ?? {};
      const command = argv ?? [...(config?.Entrypoint ?? []), ...(config?.Cmd ?? [])];
      const script = '"$@" 2>&1; echo "ended with $?"';
      const inside = ['run', '--isolation', 'chroot', container, '--', ...command];
      const shell = ['sh', '-c', script, 'sh', 'buildah', ...storage(), ...inside] as const;
      const said = await timed(`${name} ${argv?.join(' ') ?? ''}`, () => run(emulatedIfNeeded(OTHER, shell)));
      const [words = '', code] = said.split('ended with ');
      return [Number(code), words];
    }

    it.each(ON_NODE)('%s has the pinned Node, which runs', async (name) => {
      const [code, words] = await says(name, ['node', '-p', 'process.version + " " + process.arch']);
      expect(words.trim()).toBe(`${process.version} ${architecture === 'amd64' ? 'x64' : architecture}`);
      expect(code).toBe(0);
    });

    it.each([
      ['space/operator', 'SPACE_NAME'],
      ['space/db-broker', 'bad configuration: SPACE_NAME'],
      ['space/objectstore-broker', 'S3_ENDPOINT'],
      ['space/egress', 'bad configuration: SPACE_NAME'],
      ['space/console', 'SYSTEM_NAMESPACE'],
      ['space/ledger', 'DATABASE_URL is not set'],
    ])('%s starts, and ends because %s is missing', async (name, lacking) => {
      const [code, words] = await says(name);
      expect(words).toContain(lacking);
      expect(code).toBe(1);
    });

    it('every image around Node starts in a test', () => {
      expect(ON_NODE.toSorted()).toEqual(
        ['operator', 'db-broker', 'objectstore-broker', 'egress', 'console', 'ledger']
          .map((name) => `space/${name}`)
          .toSorted(),
      );
    });

    it('PostgreSQL reports its version, and its entry point demands a password', async () => {
      expect(await says('space/postgres', ['postgres', '--version'])).toEqual([
        0,
        expect.stringMatching(/^postgres \(PostgreSQL\) 17\.\d+ \(Debian /),
      ]);
      const [code, words] = await says('space/postgres');
      expect(words).toContain('entrypoint: cannot read /etc/space/admin/password');
      expect(code).toBe(1);
    });

    it('PostgreSQL makes a database, and measures between vectors in it', async () => {
      const script = [
        'set -e',
        'ln -s /usr/share/postgresql/17/extension.all /run/postgresql/extension',
        'initdb --pgdata=/tmp/data --auth=trust >/tmp/log',
        "printf \"create extension vector\\nselect '[1,2]'::vector <-> '[4,6]'::vector as distance\\n\" >/tmp/statements",
        'postgres --single -D /tmp/data postgres </tmp/statements',
      ].join('\n');
      const [code, words] = await says('space/postgres', ['sh', '-c', script]);
      expect(words).toContain('distance = "5"');
      expect(code).toBe(0);
    });

    it('the attester finds that it is not in gVisor', async () => {
      const [code, words] = await says('space/attester');
      expect(words).toMatch(/^not in gVisor \(kernel .+\): log .+, process files .+, personalities .+\n/);
      expect(code).toBe(1);
    });

    it('qemu is registered in the kernel only while a command runs, and a failing command fails as it would without it', async () => {
      const list = 'mount -t binfmt_misc binfmt_misc /mnt && ls /mnt';
      const during = await run(emulatedIfNeeded(OTHER, ['sh', '-c', `echo own $PPID; ${list}`]));
      const [, own] = /^own (\d+)$/m.exec(during) ?? [];
      expect(during).toContain(`space-${own}`);
      expect(await run(['unshare', '--mount', '--', 'sh', '-c', list])).not.toContain(`space-${own}`);
      await expect(run(emulatedIfNeeded(OTHER, ['sh', '-c', 'exit 7']))).rejects.toThrow('exit 7');
    });

    it('the S3 server reports its version', async () => {
      const [code, words] = await says(S3_SERVER.name, ['versitygw', '--version']);
      expect(words).toMatch(/^Version *:/);
      expect(code).toBe(0);
    });
  });
});
