import { readdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { equal, like, NAMES, write } from '../../outcome.ts';
import { found, names, OLD, type Play, three } from './fixture.ts';

const named =
  (name: string): Play =>
  async (fixture) => {
    write(fixture.local, { [name]: name });
    await fixture.rclone(['copy', fixture.local, fixture.data]);
    equal(await names(fixture), [name]);
    await fixture.rclone(['check', '--download', fixture.local, fixture.data]);
    await fixture.rclone(['moveto', `${fixture.data}/${name}`, `${fixture.data}/moved/${name}`]);
    equal(await fixture.rclone(['cat', `${fixture.data}/moved/${name}`]), name);
    await fixture.rclone(['deletefile', `${fixture.data}/moved/${name}`]);
    equal(await names(fixture), []);
  };

/** Cases that synchronise, move, mark and delete. */
export const CHANGES: Readonly<Record<string, Play>> = {
  ...Object.fromEntries(NAMES.map((name) => [`a file named ${name.slice(0, 20)}`, named(name)])),
  'sync of new, changed and deleted files': async (fixture) => {
    await three(fixture);
    rmSync(join(fixture.local, 'a'));
    write(fixture.local, { 'b/c': 'changed', f: 'new' });
    await fixture.rclone(['sync', fixture.local, fixture.data]);
    equal(await names(fixture), ['b/c', 'b/d/e', 'f']);
    await fixture.rclone(['check', '--download', fixture.local, fixture.data]);
  },
  'sync that moves deleted files to a backup directory': async (fixture) => {
    await three(fixture);
    rmSync(join(fixture.local, 'a'));
    await fixture.rclone(['sync', fixture.local, fixture.data, '--backup-dir', fixture.shared]);
    equal(await fixture.rclone(['cat', `${fixture.shared}/a`]), 'one');
  },
  'sync from the store to a directory': async (fixture) => {
    await three(fixture);
    const back = join(fixture.local, 'back');
    write(back, { stale: 'x' });
    await fixture.rclone(['sync', fixture.data, back]);
    equal(readdirSync(back).sort(), ['a', 'b']);
  },
  'a move on the server': async (fixture) => {
    const all = await three(fixture);
    await fixture.rclone(['move', fixture.data, fixture.shared]);
    equal([await names(fixture), await names(fixture, fixture.shared)], [[], all]);
  },
  'a move from a directory': async (fixture) => {
    write(fixture.local, { a: 'x' });
    await fixture.rclone(['move', fixture.local, fixture.data]);
    equal([readdirSync(fixture.local), await names(fixture)], [[], ['a']]);
  },
  'moveto of one file': async (fixture) => {
    await three(fixture);
    await fixture.rclone(['moveto', `${fixture.data}/a`, `${fixture.data}/z`]);
    equal(await names(fixture), ['b/c', 'b/d/e', 'z']);
  },
  'delete of files that a filter selects': async (fixture) => {
    await three(fixture);
    await fixture.rclone(['delete', fixture.data, '--include', 'c']);
    equal(await names(fixture), ['a', 'b/d/e']);
  },
  'deletefile of an existing and of a missing file': async (fixture) => {
    await three(fixture);
    await fixture.rclone(['deletefile', `${fixture.data}/a`]);
    equal(await names(fixture), ['b/c', 'b/d/e']);
    like(await fixture.fails(['deletefile', `${fixture.data}/a`]), /not found/);
  },
  purge: async (fixture) => {
    await three(fixture);
    await fixture.rclone(['purge', `${fixture.data}/b`]);
    equal(await names(fixture), ['a']);
  },
  'mkdir and rmdir, which change nothing': async (fixture) => {
    await three(fixture);
    await fixture.rclone(['mkdir', `${fixture.data}/empty`]);
    await fixture.rclone(['rmdirs', fixture.data]);
    equal(await names(fixture), ['a', 'b/c', 'b/d/e']);
  },
  'the modification time of a file is preserved': async (fixture) => {
    write(fixture.local, { a: 'x' });
    utimesSync(join(fixture.local, 'a'), OLD, OLD);
    await fixture.rclone(['copy', fixture.local, fixture.data]);
    equal(
      (await found(fixture, fixture.data)).map(({ ModTime }) => new Date(ModTime).getTime()),
      [OLD.getTime()],
    );
    await fixture.rclone(['copy', `${fixture.data}/a`, join(fixture.local, 'back')]);
    await fixture.rclone(['check', fixture.local, fixture.data, '--exclude', 'back/**']);
  },
  'the modification time of a file is changed alone': async (fixture) => {
    await three(fixture);
    utimesSync(join(fixture.local, 'a'), OLD, OLD);
    await fixture.rclone(['sync', fixture.local, fixture.data]);
    const one = (await found(fixture, fixture.data)).find(({ Path }) => Path === 'a');
    equal(new Date(one?.ModTime ?? '').getTime(), OLD.getTime());
    equal(await fixture.rclone(['cat', `${fixture.data}/a`]), 'one');
  },
  'touch of an existing and of a missing file': async (fixture) => {
    await three(fixture);
    await fixture.rclone(['touch', '--timestamp', '2020-02-03T04:05:06', `${fixture.data}/a`]);
    await fixture.rclone(['touch', '--timestamp', '2020-02-03T04:05:06', `${fixture.data}/new`]);
    await fixture.rclone(['touch', '--no-create', `${fixture.data}/never`]);
    const all = (await found(fixture, '--files-only', fixture.data)).map(({ Path, Size, ModTime }) => [
      Path,
      Size,
      ModTime.slice(0, 4),
    ]);
    equal(all.sort(), [
      ['a', 3, '2020'],
      ['new', 0, '2020'],
    ]);
    equal(await fixture.rclone(['cat', `${fixture.data}/a`]), 'one');
  },
  'versioning is reported as off': async ({ rclone, remote }) =>
    like(await rclone(['backend', 'versioning', `${remote()}data`]), /Unversioned/),
};
