// Options of commands that call a service as its partner would: the service's address, and the file with the key.

import { InvalidArgumentError, Option } from 'commander'
import { Problem } from '../../core/problem.ts'
import { readInput } from '../shared/read-input.ts'

const KEY_PATTERN = /^sse_(test|live)_[0-9A-Za-z]+$/

export const serviceOption = () =>
  new Option('--url <url>', 'the service')
    .env('TRANCHE_URL')
    .default('http://127.0.0.1:8080')
    .argParser((text: string) =>
      httpUrl(text, 'the address of the service, such as http://127.0.0.1:8080').replace(/\/+$/, ''),
    )

/** An http or https address, as it was typed; for any other, `wanted` says what it should be. */
export function httpUrl(text: string, wanted: string): string {
  const url = URL.parse(text)
  if (url && (url.protocol === 'http:' || url.protocol === 'https:')) return text
  throw new InvalidArgumentError(`Give ${wanted}.`)
}

/** The API key in a file. Throws file_not_found and bad_file. */
export function readKeyFile(file: string): string {
  const key = readInput(file).trim()
  if (!KEY_PATTERN.test(key)) throw new Problem('bad_file', `${file} holds no API key.`)
  return key
}
