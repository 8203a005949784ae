export { type ErrorCode, STATUS, type VerificationCheck } from '@space/contracts/errors';
export { Secret } from '@space/contracts/secret';
export { bind } from './bind.ts';
export { checkBodyHead, readJsonObject } from './body.ts';
export {
  ConfigError,
  type Environment,
  isConnectionsShare,
  isTlsPair,
  NO_CONNECTIONS_SHARE,
  NO_TLS_PAIR,
  readEnvironment,
  settings,
} from './config.ts';
export { boundConnections, type ConnectionShare, sharesByAddress } from './connections-by-address.ts';
export { errorBody, refusal, ServiceError } from './errors.ts';
export { gatheredOutput } from './gathered-output.ts';
export { type Indexed, IndexedSet } from './indexed-set.ts';
export { type JsonLimits, parseStrictJson } from './json.ts';
export { parseKey, parseKeys } from './key-file.ts';
export { lengthPrefixed } from './length-prefixed.ts';
export { ConcurrencyLimit, RateLimit } from './limits.ts';
export { LineBudget } from './line-budget.ts';
export { type Listener, type ListenOptions, listen, type Served, type TlsMaterial } from './listener.ts';
export { createLogger, type Logger, type LogLevel } from './log.ts';
export { closeNow, createMetrics, portOf, type ServiceMetrics, serveMetrics } from './metrics.ts';
export { parseBlock } from './net/address.ts';
export { HOST_CIPHERS } from './net/ciphers.ts';
export { deadline } from './net/deadline.ts';
export { DialError, type Dialler, dialler } from './net/dial.ts';
export { onManyTickets } from './net/few-tickets.ts';
export { fixedMap, parseFixed } from './net/fixed.ts';
export { type AddressGuard, addressGuard, isNat64Prefix } from './net/guard.ts';
export { onNextHandshake } from './net/one-handshake.ts';
export { type Answer, cached, dnsResolve, type Resolve, withFixed } from './net/resolve.ts';
export { free, memoryOf } from './own-memory.ts';
export { isProvisioner, parseProvisionerTokens, parseTokens } from './provisioners.ts';
export { RecentMap } from './recent-map.ts';
export { closeAll, keepFile, type Resources, watched } from './resources.ts';
export { type GiveBack, SharedSlots, type ShareOptions, type ShareRefusal } from './shares.ts';
export { shutDown, stopSignal } from './shutdown.ts';
export { GatheredRequest, PIECE_COST, PIECE_MS, SmallPieces } from './small-pieces.ts';
export { countTlsExpiry, watchTls } from './tls.ts';
export { bearerToken, digestOf, isToken, newToken, sameDigest, type TokenDigest } from './tokens.ts';
export { traceIdOf } from './trace.ts';
export { Turns } from './turns.ts';
export { UnansweredRequests } from './unanswered-requests.ts';
export { type Round, startUpkeep } from './upkeep.ts';
export { type Watched, type WatchedFile, watchFile } from './watched.ts';
