// Which tests are about the service, whatever keeps its data: they run on each store.

import { globSync } from 'node:fs'

const SUITES = 'test/{billing,cli,http,levers,sandbox,webhook}/**/*.test.ts'

/** Those of them that are about a file of SQLite, or look into it, and why. */
const OF_THE_FILE: Record<string, string> = {}

export const wholeService = (root: string): string[] =>
  globSync(SUITES, { cwd: root }).filter((file) => !(file in OF_THE_FILE))
