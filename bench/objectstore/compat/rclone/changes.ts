import { readdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { equal, like, NAMES, write } from '../outcome.ts';
import { found, names, OLD, type Play, three } from './ground.ts';

const named =
  (name: string): Play =>
  async (ground) => {
    write(ground.local, { [name]: name });
    await ground.rclone(['copy', ground.local, ground.data]);
    equal(await names(ground), [name]);
    await ground.rclone(['check', '--download', ground.local, ground.data]);
    await ground.rclone(['moveto', `${ground.data}/${name}`, `${ground.data}/moved/${name}`]);
    equal(await ground.rclone(['cat', `${ground.data}/moved/${name}`]), name);
    await ground.rclone(['deletefile', `${ground.data}/moved/${name}`]);
    equal(await names(ground), []);
  };

/** What is made the same, moved, marked and deleted. */
export const CHANGES: Readonly<Record<string, Play>> = {
  ...Object.fromEntries(NAMES.map((name) => [`a file named ${name.slice(0, 20)}`, named(name)])),
  'sync of what is new, changed and gone': async (ground) => {
    await three(ground);
    rmSync(join(ground.local, 'a'));
    write(ground.local, { 'b/c': 'changed', f: 'new' });
    await ground.rclone(['sync', ground.local, ground.data]);
    equal(await names(ground), ['b/c', 'b/d/e', 'f']);
    await ground.rclone(['check', '--download', ground.local, ground.data]);
  },
  'sync that keeps what it takes away': async (ground) => {
    await three(ground);
    rmSync(join(ground.local, 'a'));
    await ground.rclone(['sync', ground.local, ground.data, '--backup-dir', ground.shared]);
    equal(await ground.rclone(['cat', `${ground.shared}/a`]), 'one');
  },
  'sync from the store to a directory': async (ground) => {
    await three(ground);
    const back = join(ground.local, 'back');
    write(back, { stale: 'x' });
    await ground.rclone(['sync', ground.data, back]);
    equal(readdirSync(back).sort(), ['a', 'b']);
  },
  'a move on the server': async (ground) => {
    const all = await three(ground);
    await ground.rclone(['move', ground.data, ground.shared]);
    equal([await names(ground), await names(ground, ground.shared)], [[], all]);
  },
  'a move from a directory': async (ground) => {
    write(ground.local, { a: 'x' });
    await ground.rclone(['move', ground.local, ground.data]);
    equal([readdirSync(ground.local), await names(ground)], [[], ['a']]);
  },
  'moveto of one': async (ground) => {
    await three(ground);
    await ground.rclone(['moveto', `${ground.data}/a`, `${ground.data}/z`]);
    equal(await names(ground), ['b/c', 'b/d/e', 'z']);
  },
  'delete of what a filter names': async (ground) => {
    await three(ground);
    await ground.rclone(['delete', ground.data, '--include', 'c']);
    equal(await names(ground), ['a', 'b/d/e']);
  },
  'deletefile of one, and of none': async (ground) => {
    await three(ground);
    await ground.rclone(['deletefile', `${ground.data}/a`]);
    equal(await names(ground), ['b/c', 'b/d/e']);
    like(await ground.fails(['deletefile', `${ground.data}/a`]), /not found/);
  },
  purge: async (ground) => {
    await three(ground);
    await ground.rclone(['purge', `${ground.data}/b`]);
    equal(await names(ground), ['a']);
  },
  'mkdir and rmdir, which change nothing': async (ground) => {
    await three(ground);
    await ground.rclone(['mkdir', `${ground.data}/empty`]);
    await ground.rclone(['rmdirs', ground.data]);
    equal(await names(ground), ['a', 'b/c', 'b/d/e']);
  },
  'the time of a file, kept with it': async (ground) => {
    write(ground.local, { a: 'x' });
    utimesSync(join(ground.local, 'a'), OLD, OLD);
    await ground.rclone(['copy', ground.local, ground.data]);
    equal(
      (await found(ground, ground.data)).map(({ ModTime }) => new Date(ModTime).getTime()),
      [OLD.getTime()],
    );
    await ground.rclone(['copy', `${ground.data}/a`, join(ground.local, 'back')]);
    await ground.rclone(['check', ground.local, ground.data, '--exclude', 'back/**']);
  },
  'the time of a file, changed alone': async (ground) => {
    await three(ground);
    utimesSync(join(ground.local, 'a'), OLD, OLD);
    await ground.rclone(['sync', ground.local, ground.data]);
    const one = (await found(ground, ground.data)).find(({ Path }) => Path === 'a');
    equal(new Date(one?.ModTime ?? '').getTime(), OLD.getTime());
    equal(await ground.rclone(['cat', `${ground.data}/a`]), 'one');
  },
  'touch of what is there, and of what is not': async (ground) => {
    await three(ground);
    await ground.rclone(['touch', '--timestamp', '2020-02-03T04:05:06', `${ground.data}/a`]);
    await ground.rclone(['touch', '--timestamp', '2020-02-03T04:05:06', `${ground.data}/new`]);
    await ground.rclone(['touch', '--no-create', `${ground.data}/never`]);
    const all = (await found(ground, '--files-only', ground.data)).map(({ Path, Size, ModTime }) => [
      Path,
      Size,
      ModTime.slice(0, 4),
    ]);
    equal(all.sort(), [
      ['a', 3, '2020'],
      ['new', 0, '2020'],
    ]);
    equal(await ground.rclone(['cat', `${ground.data}/a`]), 'one');
  },
  'versioning: there is none': async ({ rclone, remote }) =>
    like(await rclone(['backend', 'versioning', `${remote()}data`]), /Unversioned/),
};
