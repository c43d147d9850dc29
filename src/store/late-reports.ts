// Which late fill an operator means.

import type { LateFill } from '../core/kept-report.ts'
import { Problem } from '../core/problem.ts'
import type { LateFillIds } from './trades.ts'

/** The report that is named, or the only undecided one. Throws late_fill_not_found, late_fill_conflict. */
export function chosen(ids: LateFillIds, late: readonly LateFill[]): LateFill {
  const { executionId, reportId } = ids
  if (reportId !== null) {
    const named = late.find((one) => one.reportId === reportId)
    if (!named) throw nothingToDecide(ids)
    return named
  }
  const undecided = late.filter((one) => one.decidedAt === null)
  const [only, another] = undecided
  if (only && !another) return only
  if (late.length === 0) throw nothingToDecide(ids)
  const numbers = (another ? undecided : late).map((one) => one.reportId).join(', ')
  const which = another
    ? `several late fills to decide on (${numbers}): name one with --report.`
    : `no late fill left to decide on. Decided already: ${numbers}.`
  throw new Problem('late_fill_conflict', `Execution ${executionId} has ${which}`)
}

/** The undecided one that is named, or all of them. Throws late_fill_not_found. */
export function undecided(ids: LateFillIds, late: readonly LateFill[]): LateFill[] {
  const { reportId } = ids
  const found = late.filter(
    (one) => one.decidedAt === null && (reportId === null || one.reportId === reportId),
  )
  if (found.length === 0) throw nothingToDecide(ids)
  return found
}

const nothingToDecide = ({ executionId, reportId }: LateFillIds): Problem =>
  new Problem(
    'late_fill_not_found',
    reportId === null
      ? `Execution ${executionId} has no late fill to decide on.`
      : `Execution ${executionId} has no late fill ${reportId} to decide on.`,
  )
