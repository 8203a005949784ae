import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { openSmallDisk } from '../../testing/small-disk.ts';
import { largestManifest, sampleManifest } from '../testing/samples.ts';
import { run } from './run.ts';

const EXAMPLES = resolve(import.meta.dirname, '../examples');
const valid = sampleManifest({ inputs: 1, routes: 1 });
const text = JSON.stringify(valid);

interface Fault {
  readonly pointer: string;
  readonly rule: string;
}

/** Runs the command on files that are held in memory. */
async function cli(
  args: readonly string[],
  files: Readonly<Record<string, string | Uint8Array | Error>> = {},
) {
  const written: Record<string, string> = {};
  let out = '';
  let err = '';
  const code = await run(args, {
    out: (more) => {
      out += more;
    },
    err: (more) => {
      err += more;
    },
    async read(file) {
      const content = files[file];
      if (content === undefined) throw Object.assign(new Error('no'), { code: 'ENOENT' });
      if (content instanceof Error) throw content;
      return typeof content === 'string' ? Buffer.from(content) : content;
    },
    async create(file, content) {
      if (Object.hasOwn(files, file)) throw Object.assign(new Error('there'), { code: 'EEXIST' });
      written[file] = content;
    },
    async remove(file) {
      delete written[file];
    },
  });
  return { code, out, err, written };
}

describe('validate', () => {
  it('reports for each file whether it is valid, and exits with 0 if all are', async () => {
    const { code, out } = await cli(['validate', 'a.json', '-'], { 'a.json': text, '-': text });
    expect({ code, out }).toEqual({ code: 0, out: 'a.json: valid\n-: valid\n' });
  });

  it('exits with 1 if one is not, with place, pointer and rule of each error', async () => {
    const files = {
      'a.json': text,
      'b.json': '{\n  "platform": {"id": "B"},\n  "network": {"allowed_hosts": [1]}\n}',
    };
    const { code, out } = await cli(['validate', 'a.json', 'b.json'], files);
    expect(code).toBe(1);
    expect(out).toContain('a.json: valid\nb.json:2:16: /platform/id must begin with a lowercase letter');
    expect(out).toContain('b.json:3:33: /network/allowed_hosts/0 must be text; found 1 [type]\n');
    expect(out).toContain('b.json: 10 errors\n');
  });

  it('exits with 2 and the name if a file cannot be read, and validates the others', async () => {
    const { code, out, err } = await cli(['validate', 'none.json', 'a.json', 'b.json'], {
      'a.json': text,
      'b.json': '{}',
    });
    expect({ code, err }).toEqual({ code: 2, err: 'none.json: does not exist\n' });
    expect(out).toContain('a.json: valid\nb.json:1:1: /platform is required');
  });

  it('accepts what the interface allows and reports what no cluster can store, which --storable refuses', async () => {
    const document = JSON.parse(text);
    const largest = largestManifest();
    const room = 1_000_000 - JSON.stringify(largest).length;
    const genesis = 'x'.repeat(room + 2);
    const files = {
      'a.json': JSON.stringify({ ...largest, platform: { ...largest.platform, genesis } }),
      'b.json': JSON.stringify({ ...document, platform: { ...document.platform, genesis: '' } }),
    };
    const says =
      /^a\.json: valid, but no cluster stores it: \/ must be at most 1000000 bytes .*; found \d+\n$/;
    const plain = await cli(['validate', 'a.json'], files);
    expect([plain.code, plain.out]).toEqual([0, expect.stringMatching(says)]);
    const json = await cli(['validate', '--json', 'a.json', 'b.json'], files);
    expect(json.code).toBe(1);
    expect(
      json.out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { file: 'a.json', valid: true, storable: false, errors: [] },
      { file: 'b.json', valid: false, storable: false, errors: [expect.anything()] },
    ]);
    const strict = await cli(['validate', '--storable', 'a.json'], files);
    expect([strict.code, strict.out]).toEqual([1, expect.stringContaining('[storage-size]')]);
  });

  it('writes one line of JSON for each file', async () => {
    const { code, out } = await cli(['validate', '--json', 'a.json', 'b.json'], {
      'a.json': text,
      'b.json': 'null',
    });
    expect(code).toBe(1);
    expect(
      out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { file: 'a.json', valid: true, storable: true, errors: [] },
      {
        file: 'b.json',
        valid: false,
        storable: false,
        errors: [{ pointer: '', rule: 'type', message: 'must be an object; found null' }],
      },
    ]);
  });

  it('refuses every kind of bad text with 1 and without a crash', async () => {
    const bad = {
      'empty.json': '',
      'cut.json': text.slice(0, 100),
      'utf16.json': Buffer.from(`\ufeff${text}`, 'utf16le'),
      'bom.yaml': `\ufeff${text}`,
      'deep.json': '['.repeat(200_000),
      'deep.yaml': '['.repeat(20_000),
      'huge.json': `"${'x'.repeat(2_000_000)}"`,
      'twice.json': text.replace('"spec":1', '"spec":1,"spec":1'),
      'twice.yaml': 'platform: {}\nplatform: {}\n',
      'proto.yaml': '__proto__: {}\n',
      'proto.json': '{"__proto__":{}}',
      'comment.yaml': '# nothing\n',
      'tab.yaml': 'a:\n\t- b\n',
      'tag.yaml': 'a: !!str b\n',
      'custom.yaml': 'a: !b c\n',
      'alias.yaml': 'a: &x [1]\nb: *x\n',
      'merge.yaml': 'a: {b: 1}\n<<: {c: 1}\n',
      'key.yaml': '1: a\n',
      'list-key.yaml': '? [a]\n: b\n',
      'norway.yaml': 'a: no\n',
      'date.yaml': 'a: 2026-01-01\n',
      'octal.yaml': 'a: 0777\n',
      'sexagesimal.yaml': 'a: 1:30\n',
    };
    expect((await cli(['validate', 'twice.yaml'], bad)).out).toContain(
      '/ must not give "platform" twice in one object (line 2, column 1) [duplicate-key]',
    );
    for (const file of Object.keys(bad)) {
      const { code, out, err } = await cli(['validate', '--json', file], bad);
      expect({ file, code, err }).toEqual({ file, code: 1, err: '' });
      expect(JSON.parse(out).errors.length, file).toBeGreaterThan(0);
    }
  });

  it('validates resources as kubectl reads them, several in a file', async () => {
    const household = await readFile(join(EXAMPLES, 'household.yaml'), 'utf8');
    const ledger = await readFile(join(EXAMPLES, 'ledger.yaml'), 'utf8');
    expect(
      (await cli(['validate', 'x.yaml'], { 'x.yaml': `---\n${household}---\n${ledger}---\n` })).out,
    ).toBe('x.yaml: valid\n');
    const wrong = ledger.replace('id: ledger', 'id: Ledger').replace('port: 8080', 'port: 0');
    const { out } = await cli(['validate', 'x.yaml'], {
      'x.yaml': `${household.replace('name: household', 'name: House')}---\n${wrong}`,
    });
    expect(out).toContain('/metadata/name must begin with a lowercase letter');
    expect(out).toContain('/spec/port must be a whole number from 1 to 65535; found 0 [number]');
    expect(out).toMatch(/x\.yaml:\d+:7: \/spec\/manifest\/platform\/id /);
    expect((await cli(['validate', 'x.yaml'], { 'x.yaml': 'apiVersion: v1\nkind: Pod\n' })).code).toBe(1);
    expect((await cli(['validate', 'x.yaml'], { 'x.yaml': `${text}\n---\n${text}\n` })).out).toContain(
      '[kind]',
    );
  });

  it('asks each resource for its name, by the rule of its kind', async () => {
    const ledger = await readFile(join(EXAMPLES, 'ledger.yaml'), 'utf8');
    const errorsWith = async (metadata: string) => {
      const text = ledger.replace('metadata:\n  name: ledger\n', metadata);
      const { code, out } = await cli(['validate', '--json', 'x.yaml'], { 'x.yaml': text });
      return [code, ...JSON.parse(out).errors.map((one: Fault) => `${one.pointer} ${one.rule}`)];
    };
    expect(await errorsWith('metadata:\n  name: the.ledger\n')).toEqual([0]);
    expect(await errorsWith('')).toEqual([1, '/metadata/name required']);
    for (const none of ['metadata:\n', 'metadata: ledger\n', 'metadata: [ledger]\n', 'metadata: {}\n'])
      expect(await errorsWith(none), none).toEqual([1, '/metadata/name required']);
    expect(await errorsWith('metadata:\n  name: 7\n')).toEqual([1, '/metadata/name type']);
    for (const name of ['Ledger_1', 'the..ledger', 'the-.ledger'])
      expect(await errorsWith(`metadata:\n  name: ${name}\n`), name).toEqual([1, '/metadata/name dns-name']);
  });

  it('points at unknown properties of a resource by a JSON pointer', async () => {
    const text = 'apiVersion: platform.space/v1\nkind: Capsule\nmetadata:\n  name: home\n"a/b~c": 1\n';
    const { out } = await cli(['validate', 'x.yaml'], { 'x.yaml': text });
    expect(out).toContain('x.yaml:5:1: /a~1b~0c is not a property of Capsule');
  });

  it.each(['\r', '\u0085', '\u2028', '\u2029'])(
    'refuses %j in YAML, behind which kubectl reads what is a comment for others',
    async (end) => {
      const hidden = `# nothing else${end}integrations: { mail: { scopes: [all] } }\n`;
      const files = { 'a.yaml': `${text}\n${hidden}`, 'b.yaml': `# Written on Windows\r\n${text}\r\n` };
      const { code, out } = await cli(['validate', 'a.yaml'], files);
      const escaped = `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`;
      expect([code, out]).toEqual([1, expect.stringContaining(`as ${escaped} in double quotes`)]);
      expect(out).toMatch(/\(line 2, column 15\) \[yaml-line-break\]/);
      expect((await cli(['validate', 'b.yaml'], files)).code).toBe(0);
    },
  );

  const keys = `{${Array.from({ length: 80_000 }, (_, index) => `"k${index}":1`).join(',')}}`;
  it.each([
    ['a long word', 'a.yaml', `platform: 1${'_'.repeat(1_000_000)}x\n`],
    ['many keys', 'a.yaml', keys],
    ['many keys in JSON, for the lines of its errors', 'a.json', keys],
  ])('reads a MiB of YAML once: %s', async (_, file, content) => {
    const began = process.threadCpuUsage().user;
    await cli(['validate', file], { [file]: content });
    // Work that grows with the square of a MiB takes minutes.
    expect(process.threadCpuUsage().user - began).toBeLessThan(15_000_000);
  });

  it('reads YAML as it reads JSON', async () => {
    const ledger = parse(await readFile(join(EXAMPLES, 'ledger.yaml'), 'utf8')) as {
      spec: { manifest: object };
    };
    expect((await cli(['validate', 'a'], { a: JSON.stringify(ledger.spec.manifest) })).code).toBe(0);
    expect((await cli(['validate', 'a.yaml'], { 'a.yaml': text })).code).toBe(0);
    const { out } = await cli(['validate', 'a.yaml'], {
      'a.yaml': 'platform:\n  version: 1.0\n  genesi: hush\n',
    });
    expect(out).toContain('a.yaml:2:3: /platform/version must be text; found 1 [type]');
    expect(out).toContain('a.yaml:3:3: /platform/genesi is not a property');
    expect(out).not.toContain('hush');
  });

  it('escapes control characters of terminals', async () => {
    const { out, err } = await cli(['validate', 'a.json', 'b\u001b[31m', 'c\u001b[31m'], {
      'a.json': '{"\\u001b[31m\\u202e":1}',
      'c\u001b[31m': new Error("ELOOP: too many symbolic links encountered, open 'c\u001b[31m'"),
    });
    expect(err).toContain('too many symbolic links');
    expect(out + err).not.toMatch(/[\u001b\u202e]/);
  });
});

describe('explain', () => {
  it('describes what is allowed at a place', async () => {
    const { code, out } = await cli(['explain', '/stored_inputs/bank/routes/0/path']);
    expect(code).toBe(0);
    expect(out).toMatchInlineSnapshot(`
      "/stored_inputs/bank/routes/0/path: Path

      Begins with /; each segment is * or 1 to 64 letters, digits and . _ ~ -; no . or .. segment, no slash at the end.

        text of 2 to 512 characters
        must begin with /, have segments that are * or 1 to 64 letters, digits and . _ ~ - (but not . or ..), and not end with a slash  [route-path]
        example: /v1/accounts/*/postings
      "
    `);
    expect((await cli(['explain', '/'])).out).toContain('platform (required): Platform block');
    expect((await cli(['explain', '/stored_inputs/any'])).out).toContain('exactly one of header and query');
  });

  it('exits with 2 for a place where nothing is allowed', async () => {
    for (const pointer of [
      '/nothing',
      '/platform/id/x',
      'platform',
      '/network/allowed_hosts/x',
      '/constructor',
    ]) {
      expect((await cli(['explain', pointer])).code).toBe(2);
    }
  });
});

describe('diff', () => {
  const files = (change: (manifest: typeof valid) => unknown) => ({
    'old.json': text,
    'new.json': JSON.stringify(change(structuredClone(valid))),
  });

  it('reports that a new version has no new powers', async () => {
    const { code, out } = await cli(
      ['diff', 'old.json', 'new.json'],
      files((manifest) => ({ ...manifest, stored_inputs: {} })),
    );
    expect({ code, out }).toEqual({
      code: 0,
      out: 'ledger 1.4.0 → 1.4.0: may do nothing that it could not do before\n',
    });
  });

  it('names each new power, and exits with 1 on request', async () => {
    const more = files((manifest) => ({
      ...manifest,
      network: { allowed_hosts: ['api.bank.org', 'new.org'] },
    }));
    const { code, out } = await cli(['diff', 'old.json', 'new.json'], more);
    expect({ code, out }).toEqual({
      code: 0,
      out: 'ledger 1.4.0 → 1.4.0: may do more than before\n  + may reach the host new.org  (/network/allowed_hosts/1)\n',
    });
    expect((await cli(['diff', '--exit-code', 'old.json', 'new.json'], more)).code).toBe(1);
  });

  it('needs two valid manifests', async () => {
    expect((await cli(['diff', 'old.json', 'new.json'], { 'old.json': text, 'new.json': '{}' })).code).toBe(
      1,
    );
    expect((await cli(['diff', 'old.json', 'new.json'], { 'old.json': text })).code).toBe(2);
    expect((await cli(['diff', 'old.json'], { 'old.json': text })).code).toBe(2);
  });
});

describe.each(['validate', 'diff'])('%s', (command) => {
  it('reads standard input once, and nothing if it is named twice', async () => {
    const files = { '-': text, 'a.json': text };
    expect((await cli([command, '-', 'a.json'], files)).code).toBe(0);
    expect(await cli([command, '-', '-'], files)).toEqual({
      code: 2,
      out: '',
      err: `${command}: name - once, since standard input can be read only once\n`,
      written: {},
    });
  });
});

describe('the rest', () => {
  it('writes a valid starter and the schema that it names, and overwrites no file', async () => {
    const { code, written } = await cli(['init']);
    expect(code).toBe(0);
    expect(Object.keys(written)).toEqual(['manifest.yaml', 'manifest.schema.json']);
    expect(written['manifest.yaml']).toContain('$schema=./manifest.schema.json\n');
    expect((await cli(['validate', 'manifest.yaml'], written)).out).toBe('manifest.yaml: valid\n');
    expect(JSON.parse(written['manifest.schema.json'] ?? '')).toEqual(
      JSON.parse((await cli(['schema'])).out),
    );
    for (const there of ['x.yaml', 'x.schema.json'])
      expect(await cli(['init', 'x.yaml'], { [there]: '' })).toEqual({
        code: 2,
        out: '',
        err: `${there}: exists already\n`,
        written: {},
      });
  });

  it('exits with 2 and prints its usage if it is called wrongly', async () => {
    for (const args of [
      [],
      ['nonsense'],
      ['constructor'],
      ['validate'],
      ['validate', '--nonsense', 'x'],
      ['schema', 'x'],
    ]) {
      expect((await cli(args)).code).toBe(2);
    }
    expect((await cli(['--help'])).code).toBe(0);
  });
});

describe('as a program', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'assistant-manifest-'));
  });
  afterAll(() => rm(directory, { recursive: true }));

  it('runs from the root by its name and exits with its code', async () => {
    const root = resolve(import.meta.dirname, '../..');
    const program = (...args: string[]) =>
      promisify(execFile)('npx', ['--no-install', 'assistant-manifest', ...args], { cwd: root }).then(
        ({ stdout }) => ({ code: 0, stdout }),
        ({ code, stdout }: { code: number; stdout: string }) => ({ code, stdout }),
      );
    const bad = join(directory, 'bad.json');
    await writeFile(bad, '{}');
    expect(
      await program(
        'validate',
        ...['ledger', 'ledger-bank', 'household'].map((one) => `manifests/examples/${one}.yaml`),
      ),
    ).toEqual({
      code: 0,
      stdout:
        'manifests/examples/ledger.yaml: valid\nmanifests/examples/ledger-bank.yaml: valid\nmanifests/examples/household.yaml: valid\n',
    });
    expect((await program('validate', bad)).code).toBe(1);
    expect((await program('validate', directory)).code).toBe(2);
  });

  const disk = openSmallDisk();
  afterAll(() => disk?.close());
  it.skipIf(disk === undefined)('leaves nothing of a starter behind on a full disk', async () => {
    if (disk === undefined) return;
    const main = resolve(import.meta.dirname, 'main.ts');
    // A disk of no size would have no limit.
    await writeFile(join(disk.path, 'other'), 'x'.repeat(4096));
    // Room for nothing of the first file; for the first one and a part of the schema.
    for (const [room, full] of [
      [0, 'manifest.yaml'],
      [8 * 1024, 'manifest.schema.json'],
    ] as const) {
      disk.leave(room);
      const init = promisify(execFile)(process.execPath, [main, 'init'], { cwd: disk.path });
      await expect(init).rejects.toMatchObject({
        code: 2,
        stderr: `${full}: has no room on its disk\n`,
      });
      expect(await readdir(disk.path)).toEqual(['other']);
    }
    disk.leave(1024 * 1024);
    await promisify(execFile)(process.execPath, [main, 'init'], { cwd: disk.path });
    expect(await readdir(disk.path)).toEqual(['manifest.schema.json', 'manifest.yaml', 'other']);
  });

  it.each(['schema', 'validate'])('%s ends with 2 if its output has no room', async (command) => {
    const [main, ledger] = [resolve(import.meta.dirname, 'main.ts'), join(EXAMPLES, 'ledger.yaml')];
    const args = [main, command, ...(command === 'schema' ? [] : [ledger])];
    const full = promisify(execFile)('sh', ['-c', '"$0" "$@" >/dev/full', process.execPath, ...args]);
    await expect(full).rejects.toMatchObject({
      code: 2,
      stderr: 'standard output: ENOSPC: no space left on device, write\n',
    });
  });
});
