// Sources and targets for the tests of copies: weeks of a service's life in a file, and places on a server.

import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { databaseOf } from '../../src/cli/context.ts'
import type { Store } from '../../src/store/store.ts'
import { lay } from '../releases/release.ts'
import { emptyDatabase, ourServer } from '../support/postgres-server.ts'
import { errorOf, openShell, type Shell, succeed } from '../support/service.ts'

const RELEASE = join(import.meta.dirname, '../../fixtures/releases/0.1.0')

export type Ends = {
  shell: Shell
  keys: string[]
  /** The file of the shell, at the current schema. */
  file: string
  /** A name in the folder of the file. */
  beside: (name: string) => string
  /** The address of a database of the test's own on a server, which is empty at first. */
  onServer: (name: string) => string
  /** Runs a command that must succeed on any database, and answers its output. */
  on: (db: string, ...argv: string[]) => Promise<string>
  /** Runs a command that must fail, and answers its code and its message. */
  refused: (db: string, ...argv: string[]) => Promise<{ exit: number; code: string; message: string }>
  /** The kind of freeze that a tick finds; null where a pass ran. Not for a database that has moved. */
  frozenKind: (db: string) => Promise<string | null>
  open: (db: string) => Promise<Store>
  /** Asks a database on the server, as its administrator. */
  ask: <Row extends object>(url: string, sql: string) => Promise<Row[]>
}

/** The database of a release, with two months that are closed. */
export async function ends(t: TestContext): Promise<Ends> {
  const server = await ourServer()
  const shell = openShell(t)
  const { keys } = lay(RELEASE, shell)
  await succeed(shell, 'migrate')
  return {
    shell,
    keys,
    file: shell.file,
    beside: (name) => join(shell.folder, name),
    onServer: (name) => emptyDatabase(join(shell.folder, name)),
    on: (db, ...argv) => succeed(shell, '--db', db, ...argv),
    async refused(db, ...argv) {
      const { code: exit, err } = await shell.tranche(['--db', db, ...argv, '--json'])
      return { exit, ...errorOf(err) }
    },
    async frozenKind(db) {
      const tick = JSON.parse(await succeed(shell, '--db', db, 'tick', '--price', '60000', '--json'))
      return tick.frozen?.kind ?? null
    },
    async open(db) {
      const store = await (await databaseOf(db, shell.machine)).open({ create: false })
      t.after(() => store.close())
      return store
    },
    ask: (url, sql) => server.ask(sql, new URL(url).pathname.slice(1)),
  }
}
