// The wake-up as the API description shows it: the one call that goes the other way.

import { z } from 'zod'
import { EVENT_NAME } from '../../core/webhook-payload.ts'
import { environment, executionId, partnerSlug, said } from '../answers/common-fields.ts'

export const wakeUp = z.object({
  event: z.literal(EVENT_NAME).meta(said('The only event there is.', EVENT_NAME)),
  partner_slug: partnerSlug,
  environment,
  count: z.int().min(1).meta(said('How many executions one pass of the scheduler has created.', 3)),
  earliest_execution_id: executionId.meta({ description: 'The first of them.' }),
})

const header = (name: string, description: string, schema: object, example: string) => ({
  name,
  in: 'header',
  required: true,
  description: `${description} An operator may have chosen another prefix than X-Service.`,
  schema,
  example,
})

/** `content` is the body, as a media type with its schema and examples. */
export const wakeUpCall = (content: object) => ({
  operationId: 'wakeUp',
  tags: ['Webhooks'],
  summary: 'There is something to poll for',
  description:
    'Sent to the address you registered, once for each pass that has created executions. It is never an instruction: ' +
    'poll, and buy what the poll hands out. It carries no key. Check its signature over the raw body, in constant ' +
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
