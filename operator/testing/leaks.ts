/** What no log line, Event or status may hold, whatever happened: tokens of any audience, and URLs with a password. */
const SECRETS = [/spc_[a-z]{3}_[A-Za-z0-9_-]{43}/, /postgres(?:ql)?:\/\/[^\s"':@/]+:[^\s"'@/]+@/];

/** Throws if one of them, or one of the canaries, occurs; the error says where and never what. */
export function nothingLeaked(
  told: Readonly<Record<string, readonly unknown[]>>,
  canaries: readonly string[],
): void {
  for (const [where, things] of Object.entries(told)) {
    for (const thing of things) {
      const text = typeof thing === 'string' ? thing : JSON.stringify(thing);
      const pattern = SECRETS.find((secret) => secret.test(text));
      if (pattern) throw new Error(`${where} hold a secret of the form ${pattern}`);
      const canary = canaries.findIndex((one) => text.includes(one));
      if (canary >= 0) throw new Error(`${where} hold canary ${canary}`);
    }
  }
}
