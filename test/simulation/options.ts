// What `npm run simulate` is asked for, from its options and its environment.

import { parseArgs } from 'node:util'

export const USAGE = `npm run simulate -- [OPTIONS]

  --minutes N    how long; one minute by default
  --store NAME   which store; there is sqlite
  --crashes      only lives whose process is killed on the way; --no-crashes none of them
  --no-shrink    print the whole trace of what fails, at once

SEED=n lives that seed alone, without crashes unless --crashes is given; STEPS=n ends every life after n steps.`

export type Options = {
  minutes: number
  /** Null for a mixture. */
  crashes: boolean | null
  shrinks: boolean
  seed: number | null
  steps: number | null
}

/** Throws an Error that says what is wrong. */
export function optionsOf(args: readonly string[], env: Record<string, string | undefined>): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: 'string', default: '1' },
      store: { type: 'string', default: 'sqlite' },
      crashes: { type: 'boolean', default: false },
      'no-crashes': { type: 'boolean', default: false },
      'no-shrink': { type: 'boolean', default: false },
    },
  })
  const minutes = Number(values.minutes)
  if (!(minutes > 0 && minutes <= 100_000)) throw new Error('--minutes is a number above 0')
  if (values.store !== 'sqlite') throw new Error(`--store ${values.store}: the only store there is is sqlite`)
  const seed = wholeNumber('SEED', env)
  const isMixed = seed === null && !values.crashes && !values['no-crashes']
  return {
    minutes,
    crashes: isMixed ? null : values.crashes,
    shrinks: !values['no-shrink'],
    seed,
    steps: wholeNumber('STEPS', env),
  }
}

function wholeNumber(name: string, env: Record<string, string | undefined>): number | null {
  const text = env[name]
  if (text === undefined || text === '') return null
  if (!/^\d{1,10}$/.test(text)) throw new Error(`${name} is a whole number, not ${text}`)
  return Number(text)
}
