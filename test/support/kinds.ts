// What the name of a test file says of it.

/** Whether it belongs to `npm run test:fast`: it starts no process, waits for no time limit, and takes no seconds. */
export const isQuick = (file: string): boolean => !/\.(process|wait|long)\.test\.ts$/.test(file)
