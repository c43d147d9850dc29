// Webhooks over HTTP: registering one, looking at it, ending it.

import { z } from 'zod'
import { register, SECRET_BYTES, secretOf, WEBHOOK_URL_MAX } from '../core/webhook.ts'
import { webhookJson } from './answers/resource-json.ts'
import { webhookAnswer, webhookDeletedAnswer, webhookRegisteredAnswer } from './answers/schemas.ts'
import { field, said } from './fields.ts'
import { route } from './route.ts'
import { parseUrl } from './webhook-url.ts'

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
