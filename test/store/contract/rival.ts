// Another process's part in the contract, on a thread of its own: opens the same data, and does one thing when told.

import { parentPort, workerData } from 'node:worker_threads'
import { type Backend, raise, T0 } from '../world.ts'
import { DONE, GO, type RivalData } from './races.ts'

const { backend, place, verb, signals } = workerData as RivalData
const { open } = (await import(backend)) as Backend
const store = await open(place, () => T0)
parentPort?.postMessage('ready')
Atomics.wait(signals, GO, 0)
if (verb === 'raise') await raise(store)
else parentPort?.postMessage((await store.takePass()) ? 'locked' : 'refused')
Atomics.store(signals, DONE, 1)
Atomics.notify(signals, DONE)
store.close()
