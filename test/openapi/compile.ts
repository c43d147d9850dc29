// Compiles a partner's TypeScript as a partner would: in a folder of its own, under strict rules.

import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

const TSC = join(import.meta.dirname, '../../node_modules/.bin/tsc')
const RULES =
  '--noEmit --strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes --target esnext --module nodenext ' +
  '--skipLibCheck --types node --allowImportingTsExtensions --ignoreConfig'

/** Throws the compiler's errors. */
export function compile(folder: string, file: string): void {
  try {
    execFileSync(TSC, [...RULES.split(' '), file], { cwd: folder, stdio: 'pipe', encoding: 'utf8' })
  } catch (error) {
    throw new Error((error as { stdout?: string }).stdout ?? String(error), { cause: error })
  }
}
