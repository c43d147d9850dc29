// What waits, for the product's own time limits or for processes to start: all of it side by side.

import { suite, test } from 'node:test'
import { HANGING } from './hanging.ts'
import { PROCESSES } from './processes.ts'

suite('what waits', { concurrency: true }, () => {
  suite('receivers and name servers that hang', { concurrency: true }, () => {
    for (const [name, run] of Object.entries(HANGING)) test(name, run)
  })
  suite('processes', { concurrency: 3 }, () => {
    for (const [name, run] of Object.entries(PROCESSES)) test(name, run)
  })
})
