// The headers of the operator's page: what a browser may do with it.

import { STYLE_HASH } from './style.ts'

/**
 * Allows only the style sheet with this hash, and forms to ourselves: no script, no picture, no outside address, no
 * frame around it.
 */
export const policyFor = (hash: string): string =>
  `default-src 'none'; style-src 'sha256-${hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`

export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': policyFor(STYLE_HASH),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  // The page's address contains names of partners and plans, and it links to no other site.
  'referrer-policy': 'same-origin',
}
