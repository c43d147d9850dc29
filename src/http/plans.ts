// Plans over HTTP: the checked body of POST /plans, and the route.

import { z } from 'zod'
import { formatUsd, usd } from '../core/money.ts'
import { tenantJson } from '../core/partner.ts'
import {
  PLAN_AMOUNT_MAX,
  PLAN_AMOUNT_MIN,
  PLAN_AMOUNT_PLACES,
  PLAN_START_MAX,
  PLAN_STATUSES,
  writePlan,
} from '../core/plan.ts'
import { notFound } from '../core/problem.ts'
import { DAY_MS } from '../core/time.ts'
import { FREQUENCIES, WINDOW_MS } from '../core/window.ts'
import { planJson, planStateJson } from './answer-json.ts'
import { planAnswer, planStateAnswer, plansAnswer } from './answer-schemas.ts'
import {
  bool,
  datetime,
  decimal,
  describe,
  EITHER,
  id,
  idCursors,
  oneOf,
  pageFields,
  pageOf,
  pathId,
  rowsFor,
} from './fields.ts'
import { route } from './route.ts'

const WINDOW_DAYS = EITHER.format(FREQUENCIES.map((frequency) => String(WINDOW_MS[frequency] / DAY_MS)))

const planBody = z.object({
  partner_user_id: pathId().meta(describe('The owner: a linked user. It never changes.', 'user-1')),
  partner_plan_id: id().meta(describe('Your id for the plan.', 'plan-1')),
  amount_usd: decimal(usd, {
    placesMax: PLAN_AMOUNT_PLACES,
    atLeast: PLAN_AMOUNT_MIN,
    atMost: PLAN_AMOUNT_MAX,
  }).meta(
    describe(
      `Dollars per buying window, ${formatUsd(PLAN_AMOUNT_MIN)} to ${formatUsd(PLAN_AMOUNT_MAX)}.`,
      '60.00',
    ),
  ),
  frequency: oneOf(FREQUENCIES).meta(
    describe(`The length of a buying window: ${WINDOW_DAYS} days.`, 'daily'),
  ),
  smart_timing_enabled: bool()
    .meta(describe('When false, the plan produces no executions. True for a new plan.', true))
    .optional(),
  start_date: datetime({ atMost: PLAN_START_MAX, beyond: 'windows must end before the year 10000' })
    .meta(
      describe(
        'The earliest time at which a window may begin; a date alone means midnight UTC. Default: now. When a plan is ' +
          'sent again, it is used only if that resets the window.',
        '2026-01-05T00:00:00Z',
      ),
    )
    .nullish(),
  status: oneOf(PLAN_STATUSES)
    .meta(describe('Active for a new plan; left out, it stays.', 'active'))
    .optional(),
})

export const postPlan = route({
  method: 'POST',
  path: '/partner/v1/plans',
  body: planBody,
  answer: planAnswer,
  handle: async ({ store, tenant, body }) => {
    const request = {
      partnerUserId: body.partner_user_id,
      partnerPlanId: body.partner_plan_id,
      amount: body.amount_usd,
      frequency: body.frequency,
      smartTimingEnabled: body.smart_timing_enabled,
      startDate: body.start_date,
      status: body.status,
    }
    return planJson(await store.changePlan(tenant, request, (facts, now) => writePlan(facts, request, now)))
  },
})

const cursors = idCursors('plan')

export const getPlans = route({
  method: 'GET',
  path: '/partner/v1/plans',
  query: z.object(pageFields('plans', cursors, 'cGxhbiBwbGFuLTE')),
  answer: plansAnswer,
  handle: async ({ store, tenant, query }) => {
    const plans = await store.readPlans(tenant, rowsFor(query))
    const { page, next_cursor } = pageOf(plans, query, (last) => cursors.write(last.partnerPlanId))
    return { ...tenantJson(tenant), plans: page.map(planStateJson), next_cursor }
  },
})

export const getPlan = route({
  method: 'GET',
  path: '/partner/v1/plans/:partner_plan_id',
  answer: planStateAnswer,
  handle: async ({ store, tenant, params }) => {
    const plan = await store.readPlan(tenant, params.partner_plan_id)
    if (!plan) throw notFound('plan')
    return planStateJson(plan)
  },
})
