// Loaded before Node's test runner: keeps it from following every promise, which takes a fifth of the quick tests'
// time.
//
// The runner follows them to tell which test an error belongs to that nobody catches. Without that, such an error fails
// the run all the same (test/uncaught.process.test.ts), and is reported beside the tests instead of as one of them.

import asyncHooks from 'node:async_hooks'

const { createHook } = asyncHooks
asyncHooks.createHook = (callbacks) => createHook({ ...callbacks, trackPromises: false })
