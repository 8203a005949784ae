import { DEFAULT_CIPHERS } from 'node:tls';

/**
 * The cipher suites for hosts that tenants choose. With those that are left out the host chooses the numbers of the key
 * exchange (Diffie-Hellman over a prime), and ones of 10,000 bits take the thread that serves everybody for almost a second.
 */
export const HOST_CIPHERS = `${DEFAULT_CIPHERS}:!DHE`;
