/** What an image is made for, as an OCI index says it. */
export const PLATFORMS = ['linux/amd64', 'linux/arm64'] as const;
export type Platform = (typeof PLATFORMS)[number];

/** How others call a platform's processor. */
interface Names {
  /** Debian's, Go's and that of an image's configuration. */
  readonly debian: 'amd64' | 'arm64';
  readonly node: 'x64' | 'arm64';
  /** Before the names of GNU's programs that make something for it. */
  readonly gnu: string;
  readonly qemu: string;
}

const NAMES: Readonly<Record<Platform, Names>> = {
  'linux/amd64': { debian: 'amd64', node: 'x64', gnu: 'x86_64-linux-gnu', qemu: 'x86_64' },
  'linux/arm64': { debian: 'arm64', node: 'arm64', gnu: 'aarch64-linux-gnu', qemu: 'aarch64' },
};

export const namesOf = (platform: Platform): Names => NAMES[platform];

/** What this machine's processor runs by itself. */
export const OWN: Platform = process.arch === 'arm64' ? 'linux/arm64' : 'linux/amd64';

export const isPlatform = (text: string): text is Platform => PLATFORMS.some((one) => one === text);

/** Keys of caches name amd64 by nothing, as they did when there was no other. */
export const inKey = (platform: Platform): readonly Platform[] =>
  platform === 'linux/amd64' ? [] : [platform];

/** A file, or a program in one of the usual places, and the Debian package that has it. */
export interface Needed {
  readonly file: string;
  readonly package: string;
}

/** What must be on the machine that builds images for them. */
export const packagesToBuild = (platforms: readonly Platform[]): readonly Needed[] => [
  { file: 'unshare', package: 'util-linux' },
  { file: 'buildah', package: 'buildah' },
  { file: 'debootstrap', package: 'debootstrap' },
  { file: 'strip', package: 'binutils' },
  ...platforms.filter((platform) => platform !== OWN).flatMap(toBuildForOther),
];

function toBuildForOther(platform: Platform): readonly Needed[] {
  const { gnu } = namesOf(platform);
  return [
    { file: emulatorFile(platform), package: 'qemu-user-static' },
    { file: `${gnu}-strip`, package: `binutils-${gnu.replace('_', '-')}` },
  ];
}

/** Where Debian's qemu says by which bytes the kernel knows a program that is to be handed to it. */
export const emulatorFile = (platform: Platform): string =>
  `/usr/lib/binfmt.d/qemu-${namesOf(platform).qemu}.conf`;
