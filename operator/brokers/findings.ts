import { type Finding, no } from '../conditions.ts';
import { BrokerError } from './database.ts';

/** What a person should know of a failed call, or `undefined` when it was no broker's failure. */
export function brokerFinding(error: unknown): Finding | undefined {
  if (!(error instanceof BrokerError)) return undefined;
  switch (error.failure) {
    case 'unreachable':
      return no(
        'BrokerUnreachable',
        'The database broker cannot do it now; it is tried again. See the Deployment db-broker in the services namespace.',
      );
    case 'not-ours':
      return no(
        'BrokerNotOurs',
        "The service at the database broker's address answers with another discovery document than the one built into the operator, so it was sent no token. Run both from the same release.",
      );
    case 'refused':
      return error.code === 'conflict'
        ? no(
            'PrincipalLost',
            "The database broker knows this Capsule with another principal. Put the Capsule's Secret back from a backup, or replace the principal with the broker's administrator command.",
          )
        : no(
            'BrokerRefused',
            `The database broker refused with "${error.code ?? 'no code'}". Its log has the reason.`,
          );
  }
}
