import { emulatorFile, OWN, type Platform } from '../platform.ts';

type Command = readonly [string, ...string[]];

/**
 * The kernel has one list of such programs for the whole machine; the entry is in it while the command runs. Since
 * Linux 6.7 the kernel removes it with the last mount of the list, also if this is killed, so the mount is private.
 */
const SCRIPT = `set -e
list=$(mktemp --directory)
forget() { echo -1 >"$list/$name" || true; umount "$list"; rmdir "$list"; }
mount -t binfmt_misc binfmt_misc "$list" || { rmdir "$list"; exit 1; }
name=space-$$
trap forget EXIT
sed "s/^:[^:]*:/:$name:/" "$1" | tr -d '\\n' >"$list/register"
shift
"$@"
`;

/**
 * The command that runs `argv` in a place where programs for `platform` run, by qemu if this machine's processor
 * cannot.
 */
export const emulatedIfNeeded = (platform: Platform, argv: Command): Command =>
  platform === OWN
    ? argv
    : ['unshare', '--mount', '--', 'sh', '-c', SCRIPT, 'sh', emulatorFile(platform), ...argv];
