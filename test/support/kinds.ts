// What the name of a test file says of it.

/** Whether it needs a PostgreSQL server, and so belongs to `npm test -- --store postgres`. */
export const needsServer = (file: string): boolean => file.endsWith('.server.test.ts')

/**
 * Whether it belongs to `npm test -- --heavy`, which .ci/run runs: it takes seconds of every core for one rule, it
 * drives a browser, or it is a short run of a search that can go on for minutes (fuzz, simulate, faults) or of another
 * command (bench, audit).
 */
export const isHeavy = (file: string): boolean => file.endsWith('.heavy.test.ts')

/** Whether it belongs to `npm run test:fast`: it starts no process, waits for no time limit, and takes no seconds. */
export const isQuick = (file: string): boolean => !/\.(process|server|wait|long|heavy)\.test\.ts$/.test(file)

/** Whether its time goes by in waiting for the product's time limits, not in work. */
export const isWaiting = (file: string): boolean => file.endsWith('.wait.test.ts')
