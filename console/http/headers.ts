import type { RequestHandler } from 'express';

/**
 * Only our own scripts and styles, no frame around our pages, no form to another site, and nothing that executes text.
 */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "connect-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
  // With no-referrer, a browser would send `Origin: null` with our own forms.
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
};

/** Sets the headers of every answer, whatever becomes of the request. */
export function securityHeaders(options: { readonly isSecure: boolean }): RequestHandler {
  return (request, response, next) => {
    response.set(HEADERS);
    // For localhost, HSTS would make a browser use https for everything else on the machine, too.
    const isLocal = /^localhost(?::|$)/.test(request.headers.host ?? '');
    if (options.isSecure && !isLocal) response.set('strict-transport-security', 'max-age=31536000');
    next();
  };
}
