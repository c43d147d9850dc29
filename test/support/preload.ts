// Loaded before Node's test runner, in every process of the tests.
//
// The runner follows every promise, to attribute uncaught errors to a test. That takes a fifth of the quick tests'
// time. Without it such an error fails the run all the same, and is reported beside the tests instead of as one of
// them.
//
// The runner also takes the end of a process for the end of its tests when the code is 0. Whatever had not run by then
// would be neither run nor missed: no test may end the process that it shares with hundreds of others.

import asyncHooks from 'node:async_hooks'
import { writeSync } from 'node:fs'

const { createHook } = asyncHooks
asyncHooks.createHook = (callbacks) => createHook({ ...callbacks, trackPromises: false })

// The process that starts the others may end in any way.
if (process.env.NODE_TEST_CONTEXT !== undefined)
  process.exit = () => {
    const error = new Error('a test ended the process that the tests after it run in')
    // The error may be caught by the code that called exit: it fails the run all the same.
    process.once('exit', () => {
      writeSync(process.stderr.fd, `${error.stack}\n`)
      process.exitCode = 1
    })
    throw error
  }
