import type { Request, Response } from 'express';
import { queryOf } from '../http/asked.ts';
import { type About, type Change, changesOf } from '../kubernetes/changes.ts';
import { type Caller, type Kubernetes, KubernetesError } from '../kubernetes/client.ts';
import type { KeptLists } from '../kubernetes/kept-lists.ts';
import type { Session } from '../session/session.ts';
import type { SpaceNames } from '../visit.ts';

export interface LiveOptions {
  readonly kubernetes: Kubernetes;
  readonly lists: Pick<KeptLists, 'expect'>;
  readonly callerOf: (session: Session) => Caller;
  readonly names: SpaceNames;
  readonly now: () => Date;
}

const MOST = 200;
/** The most streams of one session: a browser opens six connections, and pages need some of them. */
const MOST_OF_A_SESSION = 4;
/** The most streams of one person, who may sign in with several browsers. */
const MOST_OF_A_PERSON = 12;
/** The least time between two updates of a page, in milliseconds. */
const PAUSE_MS = 1_000;
/** The interval of heartbeats in milliseconds, by which a lost connection is noticed. */
const BEAT_MS = 20_000;
/** A longer timer would ring at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** One stream for each open page. It only says that the page has changed, and nothing of its content. */
export class LiveStreams {
  readonly #options: LiveOptions;
  readonly #open = new Map<AbortController, Pick<Session, 'id' | 'user'>>();

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  /**
   * Serves a stream. A person who is not signed in or may not watch gets a 204. After that and after a 503 a browser
   * does not ask again by itself; the page's script does, somewhat later.
   */
  async serve(request: Request, response: Response, session: Session | undefined): Promise<void> {
    if (session === undefined) return void response.status(204).end();
    // The head alone brings no stream, and so takes no place.
    if (request.method === 'HEAD') return void response.type('text/event-stream').end();
    if (!this.#hasRoom(session)) return void response.status(503).end();
    const stop = new AbortController();
    this.#open.set(stop, session);
    response.once('close', () => stop.abort());
    try {
      await this.#tell(request, response, session, stop);
    } catch (error) {
      if (!(error instanceof KubernetesError)) throw error;
      if (!response.headersSent) response.status(error.status === 403 ? 204 : 503);
    } finally {
      this.#open.delete(stop);
      stop.abort();
      response.end();
    }
  }

  #hasRoom({ id, user }: Session): boolean {
    const open = [...this.#open.values()];
    return (
      open.length < MOST &&
      open.filter((one) => one.id === id).length < MOST_OF_A_SESSION &&
      open.filter((one) => one.user === user).length < MOST_OF_A_PERSON
    );
  }

  async #tell(request: Request, response: Response, session: Session, stop: AbortController): Promise<void> {
    const { kubernetes, callerOf, names, now } = this.#options;
    const page = queryOf(request).get('page') ?? '/';
    const leftMs = Math.max(0, session.ends * 1000 - now().getTime());
    // A timer of its own goes with the stream; `AbortSignal.timeout` would keep each stream until its session ends.
    const over = setTimeout(() => stop.abort(), Math.min(leftMs, LONGEST_TIMER_MS));
    try {
      const caller = callerOf(session);
      const changes = await changesOf(kubernetes, caller, names, aboutOf(page), stop.signal);
      await this.#forward(response, session, changes);
    } finally {
      clearTimeout(over);
    }
  }

  async #forward(response: Response, session: Session, changes: AsyncIterable<Change>): Promise<void> {
    const { lists } = this.#options;
    // The connection is closed afterwards, so that a console that ends does not wait for it.
    response.status(200).set('connection', 'close').type('text/event-stream').write('retry: 5000\n\n');
    const beat = setInterval(() => response.write(':\n\n'), BEAT_MS);
    let due: NodeJS.Timeout | undefined;
    try {
      for await (const { path, version } of changes) {
        lists.expect(session, path, version);
        due ??= setTimeout(() => {
          due = undefined;
          response.write('event: changed\ndata: \n\n');
        }, PAUSE_MS);
      }
    } finally {
      clearInterval(beat);
      clearTimeout(due);
    }
  }

  /** Ends the streams of a session after its sign-out. */
  forget({ id }: Pick<Session, 'id'>): void {
    for (const [stop, one] of this.#open) if (one.id === id) stop.abort();
  }

  /** Ends all streams, so that a server that ends does not wait for them. */
  end(): void {
    for (const stop of this.#open.keys()) stop.abort();
  }
}

function aboutOf(page: string): About {
  const [, capsule, assistant] =
    /^\/capsules\/([a-z0-9-]{1,63})(?:\/assistants\/([a-z0-9-]{1,63}))?(?:\/|$)/.exec(page) ?? [];
  return { capsule, assistant, hasMachinery: page === '/' || page.startsWith('/sandbox') };
}
