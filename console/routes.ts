import { approve } from './pages/approve.ts';
import { assistant } from './pages/assistant.ts';
import { capsule, resumeCapsule, suspendCapsule } from './pages/capsule.ts';
import { capsules } from './pages/capsules.ts';
import { changeQuota } from './pages/change-quota.ts';
import { type CredentialOptions, credentialRoutes } from './pages/credentials.ts';
import { diagnosticsRoutes } from './pages/diagnostics.ts';
import { repairs } from './pages/repairs.ts';
import { sandbox } from './pages/sandbox.ts';
import { storeInput } from './pages/store-input.ts';
import { resumeAssistant, suspendAssistant } from './pages/suspend.ts';
import type { Route } from './visit.ts';

interface RouteOptions {
  readonly now: () => Date;
  /** Undefined if Capsules cannot have credential sets of their own. */
  readonly credentials: CredentialOptions | undefined;
}

/** Every page and every act of the console for people who have signed in. */
export const everyRoute = ({ now, credentials }: RouteOptions): readonly Route[] => [
  repairs,
  capsules,
  capsule,
  suspendCapsule,
  resumeCapsule,
  assistant,
  approve,
  suspendAssistant,
  resumeAssistant,
  storeInput,
  changeQuota,
  sandbox,
  ...diagnosticsRoutes(now),
  ...(credentials === undefined ? [] : credentialRoutes(credentials)),
];
