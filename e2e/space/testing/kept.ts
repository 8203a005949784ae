import type { Kube } from '../kube.ts';

/** The texts of a Secret. If it does not exist yet, it is made with its namespace, so that a second start finds what the first one made. */
export async function readOrCreateSecret<T extends Readonly<Record<string, string>>>(
  kube: Kube,
  of: { readonly name: string; readonly namespace: string },
  make: () => Promise<T>,
): Promise<T> {
  const secret = await kube.get('secret', of.name, of.namespace);
  if (secret !== undefined) {
    const texts = Object.entries<string>(secret['data']).map(([key, value]) => [
      key,
      Buffer.from(value, 'base64').toString(),
    ]);
    return Object.fromEntries(texts);
  }
  const made = await make();
  await kube.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: of.namespace } },
    { apiVersion: 'v1', kind: 'Secret', metadata: of, stringData: made },
  );
  return made;
}
