// Loaded before Node's test runner: keeps a test from ending the process that it shares with hundreds of others.
//
// The runner takes the end of a process for the end of its tests when the code is 0. Whatever had not run by then would
// be neither run nor missed.

import { writeSync } from 'node:fs'

// The process that starts the others may end as it likes.
if (process.env.NODE_TEST_CONTEXT !== undefined)
  process.exit = () => {
    const error = new Error('a test ended the process that the tests after it run in')
    // What throws this may be caught on its way: it fails the run all the same.
    process.once('exit', () => {
      writeSync(process.stderr.fd, `${error.stack}\n`)
      process.exitCode = 1
    })
    throw error
  }
