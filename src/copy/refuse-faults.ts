// A ledger with faults is not copied: the rules of the ledger are asked of the copy, which has the same rows.

import { counted } from '../core/counted.ts'
import { Problem } from '../core/problem.ts'
import { quoted } from '../core/shell-word.ts'
import { IN_VARIABLE, namedInCommand } from '../store/address.ts'
import type { Store } from '../store/store.ts'

/** Throws bad_file for a copy, and so a source, in which the check finds anything wrong. */
export async function refuseFaults(store: Store, source: string): Promise<void> {
  const faults = await store.findFaults()
  const [first] = faults
  if (!first) return
  const named = namedInCommand(source)
  const db = named === IN_VARIABLE ? `"${named}"` : quoted(named)
  throw new Problem(
    'bad_file',
    `The check finds ${counted(faults.length, 'fault')} in ${source}, such as ${first.kind} ${first.subject}: ` +
      `${first.message}. Nothing was copied: run \`tranche --db ${db} check\`.`,
  )
}
