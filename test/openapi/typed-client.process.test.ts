// A typed client needs no manual correction: one that uses every route compiles against types generated from the
// description.

import { cpSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, suite, type TestContext, test } from 'node:test'
import { temporaryFolder } from '../support/database.ts'
import { compile } from './compile.ts'
import { DESCRIPTION } from './described.ts'
import { generateTypes } from './generate-types.ts'

const CLIENT = join(import.meta.dirname, 'typed-client.ts')

suite('a typed client', { concurrency: 2 }, () => {
  let types = ''
  before(async () => {
    types = await generateTypes(DESCRIPTION)
  })

  function project(t: TestContext, of = types): string {
    const folder = temporaryFolder(t)
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    writeFileSync(join(folder, 'tranche.d.ts'), of)
    cpSync(CLIENT, join(folder, 'client.ts'))
    symlinkSync(join(import.meta.dirname, '../../node_modules'), join(folder, 'node_modules'))
    return folder
  }

  test('that takes every route compiles', (t) => {
    compile(project(t), 'client.ts')
  })
})
