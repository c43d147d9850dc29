// SCAFFOLD Webhooks.

import type { WebhookStore } from '../../webhooks.ts'
import type { Connection } from '../server/connection.ts'

export function createWebhookStore(_connection: Connection): WebhookStore {
  return {} as WebhookStore
}
