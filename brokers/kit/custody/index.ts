export {
  checkEnvelope,
  type Envelope,
  type EnvelopeContext,
  EnvelopeError,
  macOf,
  type Opener,
  open,
  openerOf,
  type Purpose,
  seal,
} from './envelope.ts';
export { type Keyring, KeyringError, parseKeyring, watchKeyring } from './keyring.ts';
