// The least that an instruction of a window may be. src/store/sql/least-instruction.ts says the same in SQL.

import { lesser, type Usd } from './money.ts'

/** The partner's minimum tranche; all of the budget, where that is smaller. */
export const leastInstruction = (minTranche: Usd, budget: Usd): Usd => lesser(minTranche, budget)
