// Webhooks over HTTP: registering, reading and removing one, and the wake-up that it receives.

import { z } from 'zod'
import { tenantJson } from '../core/partner.ts'
import { Problem } from '../core/problem.ts'
import { SECOND_MS } from '../core/time.ts'
import {
  EVENT_NAME,
  register,
  SECRET_BYTES,
  secretOf,
  TESTS_PER_MINUTE,
  testOf,
  WEBHOOK_URL_MAX,
  waitForTest,
} from '../core/webhook.ts'
import { deliveryJson, webhookJson } from './answer-json.ts'
import {
  deliveriesAnswer,
  testedAnswer,
  webhookAnswer,
  webhookDeletedAnswer,
  webhookRegisteredAnswer,
} from './answer-schemas.ts'
import { Refusal } from './error-codes.ts'
import {
  always,
  describe,
  describeAnswer,
  executionId,
  FieldError,
  field,
  notText,
  tenantFields,
} from './fields.ts'
import { route } from './route.ts'

const webhookBody = z.object({
  url: field({ type: 'string', format: 'uri', maxLength: WEBHOOK_URL_MAX }, parseUrl).meta(
    describe('An https address on the public internet.', 'https://partner.example/tranche'),
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
    const webhook = await store.changeWebhook(tenant, (current, now) =>
      register(current, body.url, secret, now),
    )
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
    ...tenantJson(tenant),
    deleted: await store.deleteWebhook(tenant),
  }),
})

export const getDeliveries = route({
  method: 'GET',
  path: '/partner/v1/webhooks/deliveries',
  answer: deliveriesAnswer,
  handle: async ({ store, tenant }) => ({
    ...tenantJson(tenant),
    deliveries: (await store.listDeliveries(tenant)).map(deliveryJson),
  }),
})

export const postTest = route({
  method: 'POST',
  path: '/partner/v1/webhooks/test',
  body: z.object({}),
  answer: testedAnswer,
  handle: ({ store, tenant, send, once }) =>
    once(async () => {
      const { webhook, tests, now } = await store.readyToTest(tenant)
      if (!webhook) throw new Problem('webhook_not_found', 'No webhook is registered.')
      const waitMs = waitForTest(tests, now)
      if (waitMs > 0)
        throw new Refusal('rate_limited', `At most ${TESTS_PER_MINUTE} tests of a webhook a minute.`, {
          'retry-after': String(Math.ceil(waitMs / SECOND_MS)),
        })
      const sent = { ...testOf(tenant), webhook }
      const noted = await store.noteTest(tenant, sent, await send(sent))
      return { ...tenantJson(tenant), ...deliveryJson(noted) }
    }),
})

// The URLs that a webhook may have, by their text. src/webhook/address-guard.ts decides which addresses they may lead
// to.

const notUrl = new FieldError('url_parsing', 'Input should be a valid URL')
const tooLong = new FieldError('url_too_long', `URL should have at most ${WEBHOOK_URL_MAX} characters`)

function parseUrl(input: unknown): string | FieldError {
  if (typeof input !== 'string') return notText
  if (input.length > WEBHOOK_URL_MAX) return tooLong
  // A URL parser drops some of these and keeps others; an operator's terminal would obey them.
  if (UNPRINTABLE.test(input)) return notUrl
  const url = URL.parse(input)
  if (!url) return notUrl
  if (url.protocol !== 'https:') return new FieldError('url_scheme', "URL scheme should be 'https'")
  // A URL parser reads these as other addresses than they seem to be, and nothing listens on port 0.
  if (!WELL_FORMED.test(input) || url.port === '0') return notUrl
  if (url.href.length > WEBHOOK_URL_MAX) return tooLong
  // An empty user name is gone after parsing.
  if (url.username !== '' || url.password !== '' || /^[^/]*\/\/[^/?#]*@/.test(input))
    return new FieldError('value_error', 'Value error, URL must not carry a user name or password')
  if (input.includes('#')) return new FieldError('value_error', 'Value error, URL must not carry a fragment')
  return input
}

/** The two slashes before a host, and no backslash anywhere. */
const WELL_FORMED = /^[^/]*:\/\/[^/\\][^\\]*$/

/** White space, control characters, and the marks that turn the direction of writing. */
const UNPRINTABLE = /[\s\p{Cc}\p{Cf}]/u

// The wake-up in the API description: the one call in the other direction.

export const wakeUp = z.object({
  event: always(EVENT_NAME, 'The only event there is.'),
  ...tenantFields,
  count: z.int().min(1).meta(describeAnswer('How many executions one tick of the scheduler has created.', 3)),
  earliest_execution_id: executionId.meta({ description: 'The first of them.' }),
})

const header = (name: string, description: string, schema: object, example: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema,
  example,
})

/** `content` is the body, as a media type with its schema and examples. */
export const wakeUpCall = (content: object) => ({
  operationId: 'wakeUp',
  tags: ['Webhooks'],
  summary: 'There is something to poll for',
  description:
    'Sent to the address you registered, once for each tick that has created executions. It is never an instruction: ' +
    'poll, and buy what the poll delivers. It carries no key. Check its signature over the raw body, in constant ' +
    'time, before you read it. It is not sent again; a poll finds everything in any case.',
  security: [],
  parameters: [
    header('X-Service-Event', 'What happened.', { type: 'string', const: EVENT_NAME }, EVENT_NAME),
    header(
      'X-Service-Signature',
      'HMAC-SHA256 of the raw body in lower-case hex, after `sha256=`. Its key is the whole secret of the webhook.',
      { type: 'string', pattern: '^sha256=[0-9a-f]{64}$', maxLength: 71 },
      'sha256=c0535e4be2b79ffd93291305436bf889314e4a3faec05ecffcbb7df31ad9e51a',
    ),
  ],
  requestBody: { required: true, content },
  responses: {
    '2XX': { description: 'Delivered, whatever the body says.' },
    default: { description: 'A failure, as is no answer within ten seconds.' },
  },
})
