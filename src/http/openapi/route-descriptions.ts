// The API description of each route besides the shapes of its bodies: names, headers, and every refusal.

import { DUE_PAGE_MAX, LEASE_MS } from '../../core/execution.ts'
import { ADVANCE_EXECUTIONS_MAX, EXECUTIONS_MAX } from '../../core/sandbox.ts'
import { MINUTE_MS } from '../../core/time.ts'
import { DELIVERIES_KEPT, TESTS_PER_MINUTE } from '../../core/webhook.ts'
import type { RefusalCode } from './examples.ts'

export type Operation = {
  operationId: string
  tag: string
  summary: string
  description: string
  /** The names of its schemas in the description. */
  answer: string
  body?: string
  params?: Record<string, string>
  headers?: Record<string, string>
  /** The route's own refusals. Those of every call, and of every call with a body, are added everywhere. */
  refusals?: readonly RefusalCode[]
  /** Not in the contract that partners signed: an addition that changes nothing in the contract. */
  isAddition?: true
}

const SAFE = 'Safe to retry.'
const READS = `It only reads: nothing is delivered, and no lease begins. ${SAFE}`

const WAKING =
  'With an active webhook, at most 60 calls a minute may fire tranches, by an advance or directly.'
const SANDBOX = 'Only for test keys. An operator may have switched it off, and the answer is then 404.'

const SANDBOX_REFUSALS = ['test_key_required', 'route_not_found'] as const

/** Keyed by method and path, as the route table has them. */
export const OPERATIONS: Record<string, Operation> = {
  'GET /partner/v1/me': {
    operationId: 'getMe',
    tag: 'Identity',
    summary: 'Who the key belongs to',
    description: `The partner and the environment of the key. ${SAFE}`,
    answer: 'Me',
  },
  'POST /partner/v1/users': {
    operationId: 'linkUser',
    tag: 'Users',
    summary: 'Link a user, or update one',
    description:
      'Idempotent on partner_user_id. An optional field that is left out keeps its value, null clears it. ' +
      `A disabled user stays disabled. ${SAFE}`,
    answer: 'User',
    body: 'UserRequest',
    refusals: ['consent_required', 'validation_failed'],
  },
  'GET /partner/v1/users': {
    operationId: 'listUsers',
    tag: 'Users',
    summary: 'All users',
    description: `Page by page, by partner_user_id. ${READS}`,
    answer: 'Users',
    refusals: ['validation_failed'],
    isAddition: true,
  },
  'GET /partner/v1/users/:partner_user_id': {
    operationId: 'getUser',
    tag: 'Users',
    summary: 'One user, with every consent',
    description:
      'A consent stays for ever, as evidence. The address and the provider of a user whom the operator has erased ' +
      `are null. ${READS}`,
    answer: 'UserState',
    params: { partner_user_id: 'user-1' },
    refusals: ['user_not_found'],
    isAddition: true,
  },
  'PATCH /partner/v1/users/:partner_user_id': {
    operationId: 'setUserStatus',
    tag: 'Users',
    summary: 'Disable or re-link a user',
    description:
      'A disable pauses the active plans of the user and cancels every open execution; the answer counts both. ' +
      'After a re-link the plans stay paused until each is sent again with status active.',
    answer: 'UserChanged',
    body: 'UserStatusRequest',
    params: { partner_user_id: 'user-1' },
    refusals: ['user_not_found', 'validation_failed'],
  },
  'POST /partner/v1/plans': {
    operationId: 'putPlan',
    tag: 'Plans',
    summary: 'Create a plan, or change one',
    description:
      'Idempotent on partner_plan_id. The window begins anew only when the amount or the frequency changed, or a ' +
      `paused plan becomes active; otherwise it is kept. It begins at once, or at a start_date that lies ahead. A status ` +
      `that is left out never reactivates. A plan of a disabled user can only be cancelled. ${SAFE}`,
    answer: 'Plan',
    body: 'PlanRequest',
    refusals: [
      'user_disabled',
      'user_never_linked',
      'plan_bound_elsewhere',
      'plan_cancelled',
      'validation_failed',
    ],
  },
  'GET /partner/v1/plans': {
    operationId: 'listPlans',
    tag: 'Plans',
    summary: 'All plans, with their windows and next steps',
    description: `Page by page, by partner_plan_id. ${READS}`,
    answer: 'Plans',
    refusals: ['validation_failed'],
    isAddition: true,
  },
  'GET /partner/v1/plans/:partner_plan_id': {
    operationId: 'getPlan',
    tag: 'Plans',
    summary: 'One plan: its window, what is spent and left, and what comes next',
    description: `A plan called \`.\` or \`..\` cannot be named in a path: GET /plans has it. ${READS}`,
    answer: 'PlanState',
    params: { partner_plan_id: 'plan-1' },
    refusals: ['plan_not_found'],
    isAddition: true,
  },
  'GET /partner/v1/executions/due': {
    operationId: 'pollDue',
    tag: 'Executions',
    summary: 'Fetch the executions that are due',
    description:
      'Delivers what is pending, and what was delivered before and not confirmed within its lease of ' +
      `${LEASE_MS / MINUTE_MS} minutes, with the same execution_id and idempotency_key. At most ${DUE_PAGE_MAX} a poll, ` +
      'first what comes again, by the end of its lease, then what is new, by its creation. Poll once a minute for each ' +
      `environment. ${SAFE}`,
    answer: 'DueExecutions',
    headers: { 'X-Due-Remaining': 'DueRemaining' },
  },
  'POST /partner/v1/executions/:execution_id/confirm': {
    operationId: 'confirmExecution',
    tag: 'Executions',
    summary: 'Report the outcome of an execution',
    description:
      'Records the trade, once. The same report again is answered with replayed; another one is refused. When a trade ' +
      'was made and this call failed, send this call again with the same partner_order_id, and place no second order.',
    answer: 'Confirmed',
    body: 'Confirmation',
    params: { execution_id: 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d' },
    refusals: [
      'execution_not_found',
      'amount_over_reservation',
      'execution_pending',
      'execution_recorded',
      'execution_cancelled',
      'order_id_taken',
      'validation_failed',
    ],
  },
  'GET /partner/v1/executions': {
    operationId: 'listExecutions',
    tag: 'Executions',
    summary: 'All executions, with their outcomes',
    description:
      'Page by page, oldest first, whatever the status. Never buy because of this list: only a poll delivers ' +
      `executions, and what you have not polled cannot be confirmed. ${READS}`,
    answer: 'Executions',
    refusals: ['validation_failed'],
    isAddition: true,
  },
  'GET /partner/v1/trades': {
    operationId: 'listTrades',
    tag: 'Executions',
    summary: 'The trades and adjustments of a month',
    description:
      'Page by page: every confirmation that was accepted, and every adjustment. The dollars of a month add up to the ' +
      `volume of its statement. What is recorded meanwhile comes on a later page. ${READS}`,
    answer: 'Trades',
    refusals: ['validation_failed'],
    isAddition: true,
  },
  'POST /partner/v1/webhooks': {
    operationId: 'registerWebhook',
    tag: 'Webhooks',
    summary: 'Register the webhook, or replace it',
    description: `Each environment has one webhook. Registering it makes a new secret, clears the counters and lifts a pause. ${SAFE}`,
    answer: 'WebhookRegistered',
    body: 'WebhookRequest',
    refusals: ['webhook_refused', 'validation_failed'],
  },
  'GET /partner/v1/webhooks': {
    operationId: 'getWebhook',
    tag: 'Webhooks',
    summary: 'The webhook and how its deliveries go',
    description: `Its fields are null when none is registered. Never its secret. ${SAFE}`,
    answer: 'Webhook',
  },
  'DELETE /partner/v1/webhooks': {
    operationId: 'deleteWebhook',
    tag: 'Webhooks',
    summary: 'End the wake-ups',
    description: `Touches no execution: polling continues as before. ${SAFE}`,
    answer: 'WebhookDeleted',
  },
  'GET /partner/v1/webhooks/deliveries': {
    operationId: 'listDeliveries',
    tag: 'Webhooks',
    summary: 'The newest webhook deliveries, and their results',
    description:
      `The newest ${DELIVERIES_KEPT} wake-ups and tests, the newest first; older ones are forgotten. They stay when ` +
      `you register another address or end the wake-ups; a reset of the sandbox takes them. ${READS}`,
    answer: 'Deliveries',
    isAddition: true,
  },
  'POST /partner/v1/webhooks/test': {
    operationId: 'testWebhook',
    tag: 'Webhooks',
    summary: 'Have a wake-up sent that announces nothing',
    description:
      'Sent at once and signed as every other, with a count of 0 and an id of zeros, also while the webhook is paused. ' +
      'The answer says how it ended, after ten seconds at most. It changes no counter and lifts no pause. One at a ' +
      `time, and at most ${TESTS_PER_MINUTE} a minute. ${SAFE}`,
    answer: 'WebhookTested',
    body: 'WebhookTest',
    refusals: ['webhook_not_found', 'too_many_calls'],
    isAddition: true,
  },
  'GET /partner/v1/billing/monthly': {
    operationId: 'getMonthlyStatement',
    tag: 'Billing',
    summary: 'The fees of a month',
    description: `A trade belongs to the UTC month its confirmation was accepted in. ${SAFE}`,
    answer: 'MonthlyStatement',
    refusals: ['validation_failed'],
  },
  'GET /partner/v1/billing/monthly/users': {
    operationId: 'listMonthlyUsers',
    tag: 'Billing',
    summary: "Each user's share of a month",
    description:
      'Page by page, by partner_user_id. All pages of a listing show the month as its first page did. ' +
      `The shares add up to the month's fee. ${SAFE}`,
    answer: 'MonthlyUsers',
    refusals: ['validation_failed'],
  },
  'GET /partner/v1/sandbox': {
    operationId: 'getSandbox',
    tag: 'Sandbox',
    summary: 'The time in your test environment',
    description: `${SANDBOX} ${SAFE}`,
    answer: 'Sandbox',
    refusals: [...SANDBOX_REFUSALS],
    isAddition: true,
  },
  'POST /partner/v1/sandbox/advance': {
    operationId: 'advanceSandbox',
    tag: 'Sandbox',
    summary: 'Move the clock of your test environment forward',
    description:
      'Everything fires that falls due on the way. What takes longer than a call should is answered with done false ' +
      'and continues; the clock then shows how far it is. It ends early when the service is stopped, after ten minutes, ' +
      `and once it has created ${ADVANCE_EXECUTIONS_MAX} executions: call again for the rest. An environment holds at ` +
      `most ${EXECUTIONS_MAX}. Not safe to retry: each call moves the clock. ` +
      `${WAKING} ${SANDBOX}`,
    answer: 'SandboxAdvanced',
    body: 'SandboxAdvance',
    refusals: [...SANDBOX_REFUSALS, 'sandbox_refused', 'sandbox_busy', 'sandbox_full', 'validation_failed'],
    isAddition: true,
  },
  'POST /partner/v1/sandbox/fire': {
    operationId: 'fireSandboxTranche',
    tag: 'Sandbox',
    summary: 'Fire the next tranche of a plan of your test environment',
    description: `The clock stays where it is. Not safe to retry: each call fires a tranche. ${WAKING} ${SANDBOX}`,
    answer: 'SandboxFired',
    body: 'SandboxFire',
    refusals: [...SANDBOX_REFUSALS, 'plan_not_found', 'sandbox_refused', 'sandbox_full'],
    isAddition: true,
  },
  'POST /partner/v1/sandbox/reset': {
    operationId: 'resetSandbox',
    tag: 'Sandbox',
    summary: 'Wipe your test environment',
    description:
      'Its users, plans, executions and trades go, and its reports with them. Keys and webhook stay, and the clock ' +
      `does not go back. ${SANDBOX} ${SAFE}`,
    answer: 'SandboxWiped',
    body: 'SandboxReset',
    refusals: [...SANDBOX_REFUSALS, 'sandbox_refused'],
    isAddition: true,
  },
}
