export {
  checkEnvelope,
  type Envelope,
  type EnvelopeContext,
  EnvelopeError,
  macOf,
  open,
  type Purpose,
  seal,
} from './envelope.ts';
export { type Keyring, KeyringError, parseKeyring, watchKeyring } from './keyring.ts';
