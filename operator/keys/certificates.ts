import 'reflect-metadata';
import { createPrivateKey, webcrypto, X509Certificate } from 'node:crypto';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  X509Certificate as Certificate,
  cryptoProvider,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

/** A certificate and its private key, both in PEM. */
export interface Pair {
  readonly certificate: string;
  readonly key: string;
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY_MS = 86_400_000;
/** Certificates are valid from this much earlier, for clocks that are behind. */
const EARLIER_MS = 5 * 60_000;

cryptoProvider.set(webcrypto as Crypto);

/** Creates an authority, which signs only certificates of services. */
export async function makeAuthority(name: string, days: number, now: Date): Promise<Pair> {
  const keys = await newKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    ...lasting(days, now),
    name: [{ CN: [name] }],
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return pairOf(certificate, keys);
}

/** Creates a server certificate for these names; the first one is its subject. */
export async function makeCertificate(
  authority: Pair,
  names: readonly string[],
  days: number,
  now: Date,
): Promise<Pair> {
  const keys = await newKeys();
  const issuer = new Certificate(authority.certificate);
  const signingKey = await webcrypto.subtle.importKey(
    'pkcs8',
    createPrivateKey(authority.key).export({ type: 'pkcs8', format: 'der' }),
    ALGORITHM,
    false,
    ['sign'],
  );
  const certificate = await X509CertificateGenerator.create({
    ...lasting(days, now),
    subject: [{ CN: [names[0] ?? ''] }],
    issuer: issuer.subject,
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension(names.map((value) => ({ type: 'dns', value }))),
      await AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  return pairOf(certificate, keys);
}

/**
 * The reason why a certificate must be replaced: somebody else signed it, its names differ, or a third of its time has
 * passed.
 */
export function whyRenew(
  pair: Partial<Pair>,
  authority: Pair,
  names: readonly string[],
  now: Date,
): string | undefined {
  const certificate = readCertificate(pair);
  if (certificate === undefined) return 'it is not a certificate with its key';
  if (!certificate.verify(new X509Certificate(authority.certificate).publicKey))
    return 'it is of another authority';
  const present = (certificate.subjectAltName ?? '').split(', ').map((name) => name.replace(/^DNS:/, ''));
  if (present.toSorted().join() !== names.toSorted().join()) return 'it is for other names';
  const [from, to] = [certificate.validFromDate.getTime(), certificate.validToDate.getTime()];
  return now.getTime() > from + (to - from) / 3 ? 'a third of its lifetime is over' : undefined;
}

/** When a certificate ends, in the format of Kubernetes. */
export const endOf = (certificate: string): string =>
  new X509Certificate(certificate).validToDate.toISOString();

/** Whether the pair can sign and is an authority. */
export function isAuthority(pair: Partial<Pair>): pair is Pair {
  const certificate = readCertificate(pair);
  return certificate?.ca === true && certificate.publicKey.asymmetricKeyDetails?.namedCurve === 'prime256v1';
}

function readCertificate({ certificate, key }: Partial<Pair>): X509Certificate | undefined {
  if (certificate === undefined || key === undefined) return undefined;
  try {
    const read = new X509Certificate(certificate);
    return read.checkPrivateKey(createPrivateKey(key)) ? read : undefined;
  } catch {
    return undefined;
  }
}

const newKeys = () => webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);

const lasting = (days: number, now: Date) => ({
  notBefore: new Date(now.getTime() - EARLIER_MS),
  notAfter: new Date(now.getTime() + days * DAY_MS),
});

async function pairOf(certificate: Certificate, { privateKey }: webcrypto.CryptoKeyPair): Promise<Pair> {
  const key = await webcrypto.subtle.exportKey('pkcs8', privateKey);
  return {
    certificate: `${certificate.toString('pem')}\n`,
    key: `${PemConverter.encode(key, 'PRIVATE KEY')}\n`,
  };
}
