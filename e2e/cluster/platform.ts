/** The platforms of images, as an OCI index names them. */
export const PLATFORMS = ['linux/amd64', 'linux/arm64'] as const;
export type Platform = (typeof PLATFORMS)[number];

/** Names of a platform's processor elsewhere. */
interface Names {
  /** The name in Debian, in Go and in an image's configuration. */
  readonly debian: 'amd64' | 'arm64';
  readonly node: 'x64' | 'arm64';
  /** The prefix of GNU's cross-compilers for it. */
  readonly gnu: string;
  readonly qemu: string;
}

const NAMES: Readonly<Record<Platform, Names>> = {
  'linux/amd64': { debian: 'amd64', node: 'x64', gnu: 'x86_64-linux-gnu', qemu: 'x86_64' },
  'linux/arm64': { debian: 'arm64', node: 'arm64', gnu: 'aarch64-linux-gnu', qemu: 'aarch64' },
};

export const namesOf = (platform: Platform): Names => NAMES[platform];

/** The platform of this machine's processor. */
export const OWN: Platform = process.arch === 'arm64' ? 'linux/arm64' : 'linux/amd64';

export const isPlatform = (text: string): text is Platform => PLATFORMS.some((one) => one === text);

/** Keys of caches do not name amd64, so that they are the same as when it was the only platform. */
export const inKey = (platform: Platform): readonly Platform[] =>
  platform === 'linux/amd64' ? [] : [platform];

/** A file, or a program in one of the usual places, and the Debian package that contains it. */
export interface Needed {
  readonly file: string;
  readonly package: string;
}

/** Packages that a machine needs to build images for these platforms. */
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

/** The file in which Debian's qemu describes the bytes by which the kernel recognises a program for it. */
export const emulatorFile = (platform: Platform): string =>
  `/usr/lib/binfmt.d/qemu-${namesOf(platform).qemu}.conf`;
