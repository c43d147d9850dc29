// The least that an instruction of a window may be, in SQL: the rule of src/core/least-instruction.ts.

/** Of two SQL expressions. One store calls the function `least`, the other `min`: both know `case`. */
export const leastInstruction = (minTranche: string, budget: string): string =>
  `case when ${minTranche} < ${budget} then ${minTranche} else ${budget} end`
