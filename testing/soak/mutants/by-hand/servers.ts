import { mutantsOf } from './mutant.ts';

const DECIDE = { file: 'servers/decide.test.ts' };
const ROUTER = { file: 'servers/router.test.ts' };
const CONFIG = { file: 'servers/config.test.ts' };

/** Mutations of the decisions which of several servers has a Capsule, and which Capsule a principal belongs to. */
export const SERVERS = [
  ...mutantsOf('servers/decide.ts', [
    [
      'a Capsule that is being moved is assigned to no server',
      "if (placed.movingTo !== null) return { kind: 'moving' };",
      '',
      DECIDE,
      'that is being moved is on no server',
    ],
    [
      'a recorded placement takes precedence over the first server',
      'placed.server ?? (placed.onMain ? main : undefined)',
      'placed.onMain ? main : (placed.server ?? undefined)',
      DECIDE,
      'is where it was noted, whatever main has of it',
    ],
    [
      'a server that drains gets no new Capsule',
      'candidates.filter(({ drain }) => !drain)',
      'candidates.filter(() => true)',
      DECIDE,
      'picks the first of those with the fewest Capsules by weight, and none that is draining, full or silent',
    ],
    [
      'a principal that two servers know is refused',
      "if (more.length > 0) return { kind: 'unknown' };",
      '',
      DECIDE,
      'accepts a principal only if exactly one server knows it',
    ],
    [
      'a principal that no server knows is unanswered while a server does not answer',
      "answers.includes(undefined) ? 'unanswered' : 'unknown'",
      "answers.length === 0 ? 'unanswered' : 'unknown'",
      DECIDE,
      'nobody who answers knows it',
    ],
  ]),
  ...mutantsOf('servers/place.ts', [
    [
      'a principal of the first server is refused for a Capsule on another server',
      'if (noted.usedHere && own !== main.name) throw inUse();',
      '',
      ROUTER,
      'is refused a principal that main has or had, where the Capsule is elsewhere',
    ],
    [
      'a principal that another server has or had is refused',
      'if (answers.some((answer) => answer?.used)) throw inUse();',
      '',
      ROUTER,
      'is refused a principal that another server has or had',
    ],
    [
      'a principal that is recorded for another Capsule is refused, even if its server is unavailable',
      'if ((await notePrincipal(session, capsule, principal)) !== capsule) throw inUse();',
      'await notePrincipal(session, capsule, principal);',
      ROUTER,
      'is refused a principal that was noted for another',
    ],
  ]),
  ...mutantsOf('servers/router.ts', [
    [
      "a replacement that is another Capsule's principal is refused",
      "if (whose !== capsule) throw new ServiceError('conflict', 'the principal is in use');",
      '',
      ROUTER,
      'may not get a replacement principal that is in use',
    ],
    [
      'a placement that was recorded meanwhile takes precedence over the one just chosen',
      'follow(capsule, { ...placed, onMain: false })?.server ?? requireUsable(main)',
      'requireUsable(main)',
      ROUTER,
      'is placed where another broker has placed it',
    ],
  ]),
  ...mutantsOf('servers/routes.ts', [
    [
      'the remembered route of a Capsule that is being moved is deleted',
      'found.delete(capsule);',
      '',
      ROUTER,
      'is forgotten when the Capsule is being moved',
    ],
    [
      'a Capsule without a remembered route stays unknown while the first server is unavailable',
      'if (before === undefined ||',
      "if ((before === undefined && capsule === '') ||",
      ROUTER,
      'is remembered while main loses the connection, and those of others are unknown then',
    ],
  ]),
  ...mutantsOf('servers/config.ts', [
    ['two servers have two names', 'if (seen.has(name))', "if (seen.has(''))", CONFIG, 'a name twice'],
  ]),
];
