// Webhooks over HTTP: registering one, looking at it, ending it.

import { z } from 'zod'
import { register, SECRET_BYTES, secretOf, WEBHOOK_URL_MAX } from '../core/webhook.ts'
import { webhookJson } from './answers/resource-json.ts'
import { webhookAnswer, webhookDeletedAnswer, webhookRegisteredAnswer } from './answers/schemas.ts'
import { FieldError, field, notText, said } from './fields.ts'
import { route } from './route.ts'

const webhookBody = z.object({
  url: field({ type: 'string', format: 'uri', maxLength: WEBHOOK_URL_MAX }, parseUrl).meta(
    said('An https address on the public internet.', 'https://partner.example/tranche'),
  ),
})

export const postWebhook = route({
  method: 'POST',
  path: '/partner/v1/webhooks',
  body: webhookBody,
  answer: webhookRegisteredAnswer,
  handle: async ({ store, machine, guard, tenant, body, alone }) => {
    await alone(() => guard.checkUrl(body.url))
    const secret = secretOf(machine.random(SECRET_BYTES))
    const webhook = await store.changeWebhook(tenant, (seen, now) => register(seen, body.url, secret, now))
    return { ...webhookJson(tenant, webhook), secret }
  },
})

export const getWebhook = route({
  method: 'GET',
  path: '/partner/v1/webhooks',
  answer: webhookAnswer,
  handle: async ({ store, tenant }) => webhookJson(tenant, await store.findWebhook(tenant)),
})

export const deleteWebhook = route({
  method: 'DELETE',
  path: '/partner/v1/webhooks',
  answer: webhookDeletedAnswer,
  handle: async ({ store, tenant }) => ({
    ok: true as const,
    partner_slug: tenant.partnerSlug,
    environment: tenant.environment,
    deleted: await store.deleteWebhook(tenant),
  }),
})

const notUrl = new FieldError('url_parsing', 'Input should be a valid URL')

function parseUrl(input: unknown): string | FieldError {
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
