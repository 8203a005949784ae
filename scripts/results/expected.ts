/** What a whole run of the tests has to have run, and what of it a machine may leave out. */

/** Every suite: one that was moved away is missed. */
export const SUITES: readonly string[] = [
  'backup',
  'bad-input',
  'console',
  'console-browser',
  'console-issuer',
  'crash',
  'deletion',
  'egress',
  'enforcement',
  'external',
  'files',
  'insiders',
  'isolation',
  'names',
  'rights',
  'rotation',
  'sandbox',
  'spaces',
  'story',
  'tls',
  'verify',
].map((name) => `e2e/suites/${name}.test.ts`);

/** Tests that may be skipped, by file: the beginnings of their names. */
export type Permitted = Readonly<Record<string, readonly string[]>>;

const ALL = [''];

/** Tests of tools, of a processor or of a version of PostgreSQL's programs that a machine need not have, and of one that PostgreSQL 15 does not have. */
const ANYWHERE: Permitted = {
  'brokers/db/limits/watch.test.ts': ALL,
  'brokers/db/moves/later.test.ts': ALL,
  'brokers/db/postgres/entrypoint.test.ts': ALL,
  'brokers/egress/clients.test.ts': ALL,
  'brokers/egress/installed-clients.test.ts': ALL,
  'scripts/workflows.test.ts': ['the public night builds the images for both platforms'],
};

/** What only a node that tests may enter, a host beyond the cluster that they may make, or root can show; a native cluster has all three. */
const PROVIDERS: Readonly<Record<string, Permitted>> = {
  native: {},
  kind: {
    'brokers/db/isolation/lost-node.test.ts': ALL,
    'brokers/objectstore/full-disk.test.ts': ALL,
    'e2e/cluster/images/oci.test.ts': ['buildah takes out of an archive'],
    'e2e/cluster/images/push.test.ts': ['a pushed image is named by the digest'],
    'operator/losses.test.ts': ['a disk of the database server that is full'],
    'e2e/suites/egress.test.ts': ['an Assistant and the world outside'],
    'e2e/suites/enforcement.test.ts': [
      'walls finds what a fresh probe reaches',
      'walls that hold one way alone',
    ],
    'e2e/suites/rights.test.ts': ['no program of the Space'],
  },
};

/** What the suites may run on instead of one node and the servers of the chart, and what is about these servers alone. */
export const LAYOUTS = {
  'three-nodes': {},
  'own-engines': {
    'e2e/suites/backup.test.ts': ALL,
    'e2e/suites/crash.test.ts': ['the embedded PostgreSQL'],
    'e2e/suites/tls.test.ts': ['between the parts of a Space the S3 server serves a certificate'],
  },
} satisfies Readonly<Record<string, Permitted>>;
export type Layout = keyof typeof LAYOUTS;
export const isLayout = (name: string): name is Layout => Object.hasOwn(LAYOUTS, name);

/** `maySkip` are files of which the person who runs the tests says that this machine cannot run them. */
export const permittedOn = (
  provider: string,
  maySkip: readonly string[] = [],
  layout?: Layout,
): Permitted => ({
  ...ANYWHERE,
  ...PROVIDERS[provider],
  ...(layout && LAYOUTS[layout]),
  ...Object.fromEntries(maySkip.map((file) => [file, ALL])),
});

export const isPermitted = (permitted: Permitted, file: string, test: string): boolean =>
  permitted[file]?.some((beginning) => test.startsWith(beginning)) ?? false;
