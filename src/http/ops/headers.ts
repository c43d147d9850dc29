// The headers of the page of the operator: what a browser may do with it.

import { STYLE_HASH } from './style.ts'

/**
 * Nothing but the sheet of this hash and forms to ourselves: no script, no picture, no address outside, no frame around
 * it.
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
  // Its address has the names of partners and plans in it, and no page is linked to.
  'referrer-policy': 'same-origin',
}
