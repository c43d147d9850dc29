// Copies a database while a person watches: with a bar on a terminal, and with errors that name the side they come
// from.

import type { Copied, CopyOptions } from '../../copy/copy.ts'
import type { Database } from '../../store/database.ts'
import type { Cli } from '../context.ts'
import { createProgress } from '../terminal/progress.ts'

/** Copies with a bar on a terminal. */
export async function copyWatched(
  cli: Cli,
  { from, to }: { from: Database; to: Database },
  options: Pick<CopyOptions, 'seal' | 'replace' | 'kind' | 'audit'>,
): Promise<Copied> {
  const { copyDatabase } = await import('../../copy/copy.ts')
  let doing = ''
  const progress = createProgress(cli.streams, () => doing)
  try {
    return await copyDatabase(from, to, {
      ...options,
      now: cli.machine.clock(),
      show(share, what) {
        doing = what
        progress.show(share)
      },
    })
  } catch (error) {
    throw to.explained(from.explained(error))
  } finally {
    progress.clear()
  }
}
