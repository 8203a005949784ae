/** Queries to servers and registries, in the containers that may run them. */
import { outputOf, type Place } from '../place.ts';
import { RestoreProblem } from '../problem.ts';

/** Runs a statement as the server's superuser, over its socket; statements have `:'name'` for a variable. */
export async function querySuperuser(
  place: Place,
  database: string,
  statements: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<string> {
  const set = Object.entries(variables).flatMap(([name, value]) => ['-v', `${name}=${value}`]);
  const psql = ['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-U', 'postgres', '-h', '/run/postgresql'];
  return (await outputOf(place, [...psql, ...set, '-d', database, '-f', '-'], statements)).trim();
}

/** A database of a Capsule. The Capsule's own database has no app. */
export interface Database {
  readonly app: string;
  readonly name: string;
}

const DATABASES = `SELECT coalesce(json_agg(json_build_object('app', app_id, 'name', name) ORDER BY app_id), '[]')
  FROM broker.database WHERE capsule_id = :'capsule' AND state = 'ready'`;
const NAME = /^spc_[a-z0-9_]{1,59}$/;

/** @throws RestoreProblem for names that the broker does not generate */
export async function databasesOf(place: Place, capsule: string): Promise<readonly Database[]> {
  const found: readonly Database[] = JSON.parse(
    await querySuperuser(place, 'space_registry', DATABASES, { capsule }),
  );
  if (!found.every(({ name }) => NAME.test(name)))
    throw new RestoreProblem(
      'the registry of the database broker contains a database name that the broker cannot have generated',
    );
  return found;
}

/** A registry from before several servers were supported has no tables about them. */
const SERVER = `SELECT to_regclass('broker.departure') IS NOT NULL AS several \\gset
\\if :several
SELECT coalesce(
  (SELECT coalesce(nullif(p.server, 'main'), d.server) FROM broker.departure d LEFT JOIN broker.placement p USING (capsule_id)
   WHERE d.capsule_id = :'capsule' AND d.state = 'gone'),
  (SELECT 'main' FROM broker.capsule WHERE capsule_id = :'capsule'),
  (SELECT server FROM broker.placement WHERE capsule_id = :'capsule'), 'main');
\\else
SELECT 'main';
\\endif
`;

/**
 * The server that had a Capsule, according to the first server's registry. A Capsule that was being moved is on the
 * source until the source has released it, or the first server has it: its databases are complete there, and have not
 * changed since they were closed.
 */
export const serverOf = (place: Place, capsule: string): Promise<string> =>
  querySuperuser(place, 'space_registry', SERVER, { capsule });

const OTHERS = `SELECT coalesce(json_agg(d.oid::text), '[]') FROM pg_database d
  WHERE d.datname NOT IN ('postgres', 'template0', 'template1', 'space_registry', 'space_objectstore')
    AND NOT EXISTS (SELECT FROM broker.database b WHERE b.name = d.datname AND b.capsule_id = :'capsule')`;

/**
 * OIDs of databases that exist now and are neither the Capsule's nor the Space's own. An OID is never used for
 * another database, so none of them was the Capsule's at any time.
 */
export const othersDatabases = async (place: Place, capsule: string): Promise<readonly string[]> =>
  JSON.parse(await querySuperuser(place, 'space_registry', OTHERS, { capsule }));

/** The prefixes of a Capsule's files in the bucket. */
export interface Files {
  readonly place: string;
  /** Those of the Assistants, by id. */
  readonly apps: Readonly<Record<string, string>>;
  /** The number of its own credential sets in custody. */
  readonly sets: number;
}

const FILES = `SELECT json_build_object('place', s.place,
    'apps', (SELECT coalesce(json_object_agg(w.app_id, w.place), '{}') FROM broker.workload w
             WHERE w.capsule_id = s.capsule_id AND w.life = s.life AND w.state = 'ready'),
    'sets', (SELECT count(*) FROM broker.credential_set c WHERE c.capsule_id = s.capsule_id))
  FROM broker.store s JOIN broker.capsule c ON c.capsule_id = s.capsule_id AND c.life = s.life
  WHERE s.capsule_id = :'capsule' AND c.state = 'active'`;

export async function filesOf(place: Place, capsule: string): Promise<Files | undefined> {
  const answer = await querySuperuser(place, 'space_objectstore', FILES, { capsule });
  return answer === '' ? undefined : JSON.parse(answer);
}
