import { randomBytes } from 'node:crypto';
import { openingStatements } from '../../brokers/db/isolation/statements.ts';
import { connect } from '../../brokers/db/testing/postgres.ts';
import type { Peer } from '../vault.ts';
import { appName, type DatabaseFixture } from './fixture.ts';
import { measure, type Part, p50, p99, rate, round, row, type Samples } from './samples.ts';

/** Creates databases from the pool one after another, and then requests existing ones again. */
export async function createWarm(fixture: DatabaseFixture, spares: number, quick: boolean): Promise<Part> {
  await fixture.settle();
  await measure(5, 1, fixture.createNext);
  await fixture.settle();
  const warm = await measure(spares - 8, 1, fixture.createNext);
  const repeats = await measure(quick ? 100 : 500, 1, (i) => fixture.create(appName((i % 10) + 1)));
  return {
    rows: [row('create from the pool, 1 caller', warm), row('create repeated, 1 caller', repeats)],
    figures: {
      warm_create_p50_ms: p50(warm),
      warm_create_p99_ms: p99(warm),
      create_again_p50_ms: p50(repeats),
    },
  };
}

/** Measures a COMMIT that writes only the log, which is the least that a durable answer can cost. */
export async function commit({ superuserUrl }: DatabaseFixture, quick: boolean): Promise<Part> {
  const client = await connect(superuserUrl);
  try {
    const alone = await measure(quick ? 100 : 500, 1, () =>
      client.query("SELECT pg_logical_emit_message(true, 'bench', '')"),
    );
    return {
      rows: [row('COMMIT of an empty transaction, 1 connection', alone)],
      figures: { commit_p50_ms: p50(alone) },
    };
  } finally {
    await client.end();
  }
}

/** Creates databases in a burst that empties the pool, and then as fast as the pool is filled. */
export async function createMany(fixture: DatabaseFixture, spares: number, quick: boolean): Promise<Part> {
  await fixture.settle();
  const burst = await measure(spares, 8, fixture.createNext);
  const sustained = await measure(quick ? 40 : 300, 4, fixture.createNext);
  return {
    rows: [
      row(`create, a burst of ${spares}, 8 callers`, burst),
      row('create, sustained after the burst, 4 callers', sustained),
    ],
    figures: {
      burst_per_second: round(rate(burst)),
      sustained_per_second: round(rate(sustained)),
      sustained_p99_ms: p99(sustained),
    },
  };
}

/** Creates the same with SQL statements, on one open connection and on four. */
export async function createByHand({ superuserUrl, settle }: DatabaseFixture, quick: boolean): Promise<Part> {
  await settle();
  const alone = await byHand(superuserUrl, quick ? 20 : 100, 1);
  const together = await byHand(superuserUrl, quick ? 40 : 300, 4);
  return {
    rows: [row('create by SQL, 1 connection', alone), row('create by SQL, 4 connections', together)],
    figures: {
      by_hand_p50_ms: p50(alone),
      by_hand_per_second: round(rate(alone)),
      by_hand_4_per_second: round(rate(together)),
      by_hand_4_p99_ms: p99(together),
    },
  };
}

/**
 * What a create from a spare costs PostgreSQL alone: the statements that make a role and open a spare to it, in one
 * transaction on connections that are there. No broker, registry, audit or HTTP.
 */
export async function openByHand({ superuserUrl, settle }: DatabaseFixture, spares: number): Promise<Part> {
  const clients = await Promise.all(Array.from({ length: 8 }, () => connect(superuserUrl)));
  const idle = [...clients];
  try {
    const [first] = clients;
    for (let i = 0; i < spares; i += 1)
      await first?.query(`CREATE DATABASE ${SPARE}${i} TEMPLATE template0 ALLOW_CONNECTIONS false`);
    await settle();
    const opened = await measure(spares, 8, async (i) => {
      const client = idle.pop();
      if (client === undefined) throw new Error('more callers than connections');
      await client.query(openingStatements({ ...OPENING, spare: `${SPARE}${i}`, name: `${OPENED}${i}` }));
      idle.push(client);
    });
    return {
      rows: [row('statements of a create alone, 8 connections', opened)],
      figures: { open_by_hand_per_second: round(rate(opened)) },
    };
  } finally {
    await Promise.all(clients.map((client) => client.end()));
  }
}

const SPARE = 'spc_bench_spare_';
const OPENED = 'spc_bench_opened_';
/** Nobody logs in with it. */
const VERIFIER = `SCRAM-SHA-256$4096:${randomBytes(16).toString('base64')}$${randomBytes(32).toString('base64')}:${randomBytes(32).toString('base64')}`;
const OPENING = { verifier: VERIFIER, connectionLimit: 1, patience: 'give' } as const;

/** Creates roles with Vault's plugin, which cannot create databases. */
export async function createByVault(
  { superuserUrl }: DatabaseFixture,
  vault: Peer,
  quick: boolean,
): Promise<Part> {
  const alone = await vault.makeRoles(superuserUrl, quick ? 50 : 300, 1);
  const together = await vault.makeRoles(superuserUrl, quick ? 100 : 600, 8);
  return {
    rows: [
      row('role only, Vault plugin, 1 caller', alone),
      row('role only, Vault plugin, 8 callers', together),
    ],
    figures: { vault_role_p50_ms: p50(alone), vault_roles_per_second: round(rate(together)) },
  };
}

/** All databases are cloned from template0, since parallel clones of template1 wait for each other's sessions. */
async function byHand(superuserUrl: string, count: number, connections: number): Promise<Samples> {
  const clients = await Promise.all(Array.from({ length: connections }, () => connect(superuserUrl)));
  const idle = [...clients];
  try {
    return await measure(count, connections, async (i) => {
      const client = idle.pop();
      if (client === undefined) throw new Error('there are more callers than connections');
      const name = `hand${connections}_${i}`;
      await client.query(`CREATE ROLE ${name} LOGIN PASSWORD 'x'`);
      await client.query(`CREATE DATABASE ${name} TEMPLATE template0`);
      await client.query(
        `REVOKE ALL ON DATABASE ${name} FROM PUBLIC; GRANT CONNECT ON DATABASE ${name} TO ${name}`,
      );
      idle.push(client);
    });
  } finally {
    await Promise.all(clients.map((client) => client.end()));
  }
}
