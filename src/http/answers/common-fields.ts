// The fields that several answers share: their shapes, descriptions and examples.

import { z } from 'zod'
import { ENVIRONMENTS, PARTNER_SLUG_MAX, PARTNER_SLUG_PATTERN } from '../../core/partner.ts'
import { ID_MAX, TEXT_MAX } from '../../core/text-lengths.ts'
import { oneLine } from '../fields.ts'
import { CURSOR } from '../paging.ts'

const DATE_TIME = '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$'

export const said = (description: string, example?: unknown) => ({
  description,
  ...(example !== undefined && { examples: [example] }),
})

export const instant = (description: string, example = '2026-01-05T00:00:00.000Z') =>
  z.string().meta({ format: 'date-time', pattern: DATE_TIME, maxLength: 24, ...said(description, example) })

/** Text that was checked when it came: one line, without control characters. */
export const text = (description: string, example: string, max = TEXT_MAX) =>
  z.string().meta({ ...oneLine(max), ...said(description, example) })

/** Text as somebody worded it. */
export const prose = (description: string, example: string, max: number) =>
  z.string().meta({ maxLength: max, ...said(description, example) })

/** The longest amount: one of the ledger has at most 20 digits and a point, a sum of a month may have more. */
const AMOUNT_MAX = 32

/** Dollars: at least two places, at most eight. */
export const dollars = (description: string, example = '10.00') =>
  z.string().meta({ pattern: '^\\d+\\.\\d{2,8}$', maxLength: AMOUNT_MAX, ...said(description, example) })

/** Sums of a month, which may be negative: corrections of an earlier month may outweigh what was bought in this one. */
export const dollarSum = (description: string, example: string) =>
  z.string().meta({ pattern: '^-?\\d+\\.\\d{2,8}$', maxLength: AMOUNT_MAX, ...said(description, example) })

export const coinSum = (description: string, example: string) =>
  z.string().meta({ pattern: '^-?\\d+\\.\\d{8}$', maxLength: AMOUNT_MAX, ...said(description, example) })

export const count = (description: string, example = 1) => z.int().min(0).meta(said(description, example))

export const partnerSlug = z.string().meta({
  pattern: PARTNER_SLUG_PATTERN.source,
  maxLength: PARTNER_SLUG_MAX,
  ...said('The partner the key belongs to.', 'acme'),
})
export const environment = z.enum(ENVIRONMENTS).meta(said('The environment the key belongs to.', 'test'))
export const partnerUserId = text("The partner's id of the user.", 'user-1', ID_MAX)
export const partnerPlanId = text("The partner's id of the plan.", 'plan-1', ID_MAX)
/** How the id of an execution is written. */
export const EXECUTION_ID = { pattern: '^exec_[0-9a-f]{32}$', maxLength: 37 }
export const executionId = z.string().meta({
  ...EXECUTION_ID,
  ...said('Stable across deliveries.', 'exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d'),
})
export const createdAt = instant('When it was created.')
export const updatedAt = instant('When it last changed.')
export const ok = z.literal(true).meta(said('Always true.', true))

export const nextCursor = (example: string) =>
  z.string().meta(CURSOR).nullable().meta(said('Gives the next page; null on the last one.', example))
