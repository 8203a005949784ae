import type { CredentialRecord } from '@space/contracts/objectstore';
import type { CallsOf } from './gateway/calls.ts';
import type { Html, Value } from './html/template.ts';
import { html } from './html/template.ts';
import type { Url } from './html/url.ts';
import type { Form } from './http/form.ts';
import type { Outcome } from './http/outcome.ts';
import { type Act, isAllowed } from './kubernetes/access.ts';
import type { Ask, Caller, Kubernetes } from './kubernetes/client.ts';
import type { KeptLists } from './kubernetes/kept-lists.ts';
import type { Rows } from './kubernetes/tables.ts';
import type { MachineryOf } from './machinery/machinery.ts';
import { formToken, type Session } from './session/session.ts';

/** The names of the Space and of its three namespaces. */
export interface SpaceNames {
  readonly space: string;
  readonly namespace: string;
  readonly systemNamespace: string;
  readonly servicesNamespace: string;
  /** Whether Capsules can have credential sets of their own. */
  readonly hasObjectStore: boolean;
}

/** One request of a person who has signed in; everything that a page reads, it reads with this person's rights. */
export interface Visit {
  readonly session: Session;
  readonly names: SpaceNames;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly form: Form;
  readonly now: () => Date;
  ask(ask: Ask): Promise<unknown>;
  list(path: string): Promise<Rows>;
  may(act: Act): Promise<boolean>;
  /** Undefined if the console does not know the egress gateway. */
  readonly callsOf: CallsOf | undefined;
  /** Undefined if Capsules cannot have credential sets of their own. */
  readonly setsOf?: SetsOf | undefined;
  /** Programs, nodes, probes and certificates, as far as the person may see them. */
  readonly machineryOf: MachineryOf;
}

/** The credential sets of a Capsule, for a person who may use them; undefined where they are not known now. */
export type SetsOf = (visit: Visit, capsule: string) => Promise<readonly CredentialRecord[] | undefined>;

export interface Route {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** The link of the sidebar that the page belongs to. */
  readonly under: Section;
  readonly run: (visit: Visit) => Promise<Outcome>;
}

export type Section = 'repairs' | 'capsules' | 'sandbox' | 'diagnostics';

export function visit(
  { kubernetes, lists }: { readonly kubernetes: Kubernetes; readonly lists: KeptLists },
  caller: Caller,
  about: Pick<
    Visit,
    'session' | 'names' | 'params' | 'query' | 'form' | 'now' | 'callsOf' | 'setsOf' | 'machineryOf'
  >,
): Visit {
  const { session } = about;
  const asked = new Map<string, Promise<boolean>>();
  const listed = new Map<string, Promise<Rows>>();
  return {
    ...about,
    ask: async (ask) => {
      try {
        return await kubernetes.ask(caller, ask);
      } finally {
        if ((ask.method ?? 'GET') !== 'GET') lists.forget(session);
      }
    },
    list(path) {
      const known = listed.get(path) ?? lists.rows(session, caller, path);
      listed.set(path, known);
      return known;
    },
    may(act) {
      const key = JSON.stringify(act);
      const known = asked.get(key) ?? isAllowed(kubernetes, caller, act);
      asked.set(key, known);
      return known;
    },
  };
}

/** Whether the person has one of the Space's own verbs on the Capsule. */
export const mayOn = (
  { may, names }: Pick<Visit, 'may' | 'names'>,
  capsule: string,
  verb: string,
): Promise<boolean> =>
  may({ group: 'platform.space', resource: 'capsules', namespace: names.namespace, name: capsule, verb });

/** A form that only this session can send, and only to this address. */
export function postForm({ session }: Pick<Visit, 'session'>, action: Url, content: Value): Html {
  return html`<form method="post" action="${action}">
<input type="hidden" name="form_token" value="${formToken(session.formKey, action.text)}">${content}</form>`;
}
