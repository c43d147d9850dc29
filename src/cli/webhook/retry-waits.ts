// How long to wait before a service that cannot be reached is asked again.

/** The waits of the contract, in seconds; the last one for as long as it takes. */
export const WAITS_S = [1, 2, 5, 10, 30, 60]

/** As a sentence says them: "1, 2, 5, 10, 30 and 60". */
export const waitsInWords = (): string => `${WAITS_S.slice(0, -1).join(', ')} and ${WAITS_S.at(-1)}`
