import { emulatorFile, OWN, type Platform } from '../platform.ts';

type Command = readonly [string, ...string[]];

/**
 * The kernel has one list of such programs, which all of the machine see: the line is in it for as long as the command runs. A
 * kernel since 6.7 takes it back with the last mount of the list, also when this is killed; so the mount is private.
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

/** The command that runs `argv` where programs for `platform` run, by qemu where this machine's processor does not. */
export const ableToRun = (platform: Platform, argv: Command): Command =>
  platform === OWN
    ? argv
    : ['unshare', '--mount', '--', 'sh', '-c', SCRIPT, 'sh', emulatorFile(platform), ...argv];
