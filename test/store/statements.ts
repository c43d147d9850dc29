// Every statement that the program prepares on a file while the tests of a suite run.

import { after, before } from 'node:test'
import { openInMemory } from '../../src/store/sqlite/file/connection.ts'

/** The second frame of a stack: the caller of `prepare`. */
const CALLER = /^.*\n.*\n(.*)/

/** Begins to collect when the present suite begins, and ends with it. */
export function statementsOfSuite(): ReadonlySet<string> {
  const seen = new Set<string>()
  const any = openInMemory()
  const connections = Object.getPrototypeOf(any) as Pick<typeof any, 'prepare'>
  any.close()
  const { prepare } = connections
  before(() => {
    connections.prepare = function (this: typeof any, text: string) {
      // A test's own statements are not the program's.
      if (!seen.has(text) && CALLER.exec(new Error().stack ?? '')?.[1]?.includes('/src/')) seen.add(text)
      return prepare.call(this, text)
    } as typeof prepare
  })
  after(() => {
    connections.prepare = prepare
  })
  return seen
}
