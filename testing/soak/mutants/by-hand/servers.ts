import { mutantsOf } from './mutant.ts';

const DECIDE = { file: 'servers/decide.test.ts' };
const ROUTER = { file: 'servers/router.test.ts' };
const CONFIG = { file: 'servers/config.test.ts' };

/** Mutations of which of several servers has a Capsule, and whom its principal stands for. */
export const SERVERS = [
  ...mutantsOf('servers/decide.ts', [
    [
      'a Capsule that is being moved is on no server',
      "if (placed.movingTo !== null) return { kind: 'moving' };",
      '',
      DECIDE,
      'that is being moved is on no server',
    ],
    [
      'what was noted counts before what the first server has',
      'placed.server ?? (placed.onMain ? main : undefined)',
      'placed.onMain ? main : (placed.server ?? undefined)',
      DECIDE,
      'is where it was noted, whatever main has of it',
    ],
    [
      'a server that drains gets nothing',
      'candidates.filter(({ drain }) => !drain)',
      'candidates.filter(() => true)',
      DECIDE,
      'takes the first of those with the fewest Capsules for their weight, and none that drains, is full or is silent',
    ],
    [
      'whom two servers know is nobody',
      "if (more.length > 0) return { kind: 'unknown' };",
      '',
      DECIDE,
      'lets nobody in whom not exactly one server knows',
    ],
    [
      'a server that is silent leaves open who somebody is',
      "answers.includes(undefined) ? 'unanswered' : 'unknown'",
      "answers.length === 0 ? 'unanswered' : 'unknown'",
      DECIDE,
      'nobody who answers knows it',
    ],
  ]),
  ...mutantsOf('servers/place.ts', [
    [
      'a principal of the first server is refused elsewhere',
      'if (noted.usedHere && own !== main.name) throw inUse();',
      '',
      ROUTER,
      'is refused a principal that main has or had, where the Capsule is elsewhere',
    ],
    [
      'a principal of another server is refused',
      'if (answers.some((answer) => answer?.used)) throw inUse();',
      '',
      ROUTER,
      'is refused a principal that another server has or had',
    ],
    [
      'a principal that was noted for another Capsule is refused, also where its server is away',
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
      'is refused a replacement that is in use',
    ],
    [
      'what was noted meanwhile counts, not what was chosen',
      'follow(capsule, { ...placed, onMain: false })?.server ?? requireUsable(main)',
      'requireUsable(main)',
      ROUTER,
      'goes where somebody else has noted it',
    ],
  ]),
  ...mutantsOf('servers/routes.ts', [
    [
      'a Capsule that is being moved is forgotten',
      'found.delete(capsule);',
      '',
      ROUTER,
      'is forgotten when the Capsule is being moved',
    ],
    [
      'what nothing is known of stays unknown while the first server is away',
      'if (before === undefined ||',
      "if ((before === undefined && capsule === '') ||",
      ROUTER,
      'is remembered while main loses the connection; of others nothing is known then',
    ],
  ]),
  ...mutantsOf('servers/config.ts', [
    ['two servers have two names', 'if (seen.has(name))', "if (seen.has(''))", CONFIG, 'a name twice'],
  ]),
];
