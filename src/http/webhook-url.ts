// Which URLs a webhook may have, by how they are written; where they may lead, src/webhook/address-guard.ts decides.

import { WEBHOOK_URL_MAX } from '../core/webhook.ts'
import { FieldError, notText } from './fields.ts'

const notUrl = new FieldError('url_parsing', 'Input should be a valid URL')

export function parseUrl(input: unknown): string | FieldError {
  if (typeof input !== 'string') return notText
  if (input.length > WEBHOOK_URL_MAX) {
    return new FieldError('url_too_long', `URL should have at most ${WEBHOOK_URL_MAX} characters`)
  }
  // A URL parser drops some of these and keeps others; an operator's terminal would obey them.
  if (UNPRINTABLE.test(input)) return notUrl
  const url = URL.parse(input)
  if (!url) return notUrl
  if (url.protocol !== 'https:') return new FieldError('url_scheme', "URL scheme should be 'https'")
  // A URL parser reads these as addresses other than they seem, and nothing listens on port 0.
  if (!WELL_FORMED.test(input) || url.port === '0') return notUrl
  if (url.href.length > WEBHOOK_URL_MAX) {
    return new FieldError('url_too_long', `URL should have at most ${WEBHOOK_URL_MAX} characters`)
  }
  // An empty user name is gone after parsing.
  if (url.username !== '' || url.password !== '' || /^[^/]*\/\/[^/?#]*@/.test(input)) {
    return new FieldError('value_error', 'Value error, URL must not carry a user name or password')
  }
  if (input.includes('#')) return new FieldError('value_error', 'Value error, URL must not carry a fragment')
  return input
}

/** The two slashes before a host, and no backslash anywhere. */
const WELL_FORMED = /^[^/]*:\/\/[^/\\][^\\]*$/

/** White space, control characters, and the marks that turn the direction of writing. */
const UNPRINTABLE = /[\s\p{Cc}\p{Cf}]/u
