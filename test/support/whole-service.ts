// Which tests are about the service, whatever keeps its data: they run on each store.

import { globSync } from 'node:fs'
import { isHeavy, needsServer } from './kinds.ts'

const SUITES = 'test/{billing,cli,http,levers,openapi,sandbox,webhook}/**/*.test.ts'

/** Those of them that put rows into the file, or read them there, to make or to see what no command does. */
const LOOK_INTO_THE_FILE = [
  'test/billing/closed-months.long.test.ts',
  'test/billing/export.process.test.ts',
  'test/billing/export.test.ts',
  'test/billing/invoice.test.ts',
  'test/billing/reconcile.long.test.ts',
  'test/cli/check.test.ts',
  'test/cli/late-scheduler.test.ts',
  'test/cli/live-screen.test.ts',
  'test/cli/transcripts.test.ts',
  'test/http/billing.test.ts',
  'test/http/ops-page.long.test.ts',
  'test/http/ops.test.ts',
  'test/http/readiness.wait.test.ts',
  'test/levers/adjust.test.ts',
  'test/levers/months.long.test.ts',
  'test/sandbox/time.test.ts',
  'test/webhook/events.test.ts',
  'test/webhook/follow.test.ts',
]

/** Those that are about the file itself: its backups, its bytes, what is beside it, how it fails. */
const OF_THE_FILE = [
  'test/cli/file.process.test.ts',
  'test/cli/demo.process.test.ts',
  'test/cli/init.process.test.ts',
  'test/cli/outputs.test.ts',
  'test/cli/serve-opening.process.test.ts',
  'test/cli/start.process.test.ts',
  'test/levers/erase.test.ts',
]

export const wholeService = (root: string): string[] =>
  globSync(SUITES, { cwd: root }).filter(
    (file) => !needsServer(file) && !isHeavy(file) && ![...LOOK_INTO_THE_FILE, ...OF_THE_FILE].includes(file),
  )
