// health: whether a service answers. The executable asks itself, because a container has no curl.

import { Command } from 'commander'
import { reasonInWords, usage } from '../../core/problem.ts'
import { isLoopback } from '../../price/fetch.ts'
import type { Cli } from '../context.ts'
import { EXIT } from '../exit-codes.ts'
import { installedSettings, serviceUrl } from '../installed.ts'
import { setting, wholeNumber } from '../options.ts'
import { print } from '../terminal.ts'

const ANSWER_WAIT_MS = 3_000

type HealthOptions = { url?: string; port?: number; ready?: true }

export function healthCommand(cli: Cli): Command {
  return new Command('health')
    .description('ask a running serve whether it is up, or ready; exits 0 or 1')
    .option('--ready', 'ask whether it can do its work; while it waits for its database, it cannot')
    .option('--url <url>', 'where it answers (default: on this machine, by the settings of serve)')
    .addOption(setting('--port <number>', 'its port on this machine').argParser(wholeNumber(1, 65_535)))
    .action(async (options: HealthOptions) => {
      const [path, isWell] = options.ready ? (['/readyz', isReady] as const) : (['/healthz', isUp] as const)
      const url = new URL(path, addressOf(options))
      const answer = await ask(url, isWell)
      print(cli, { ok: answer.ok, url: url.href, answer: answer.text }, () =>
        answer.ok ? 'ok' : `${url.href}: ${answer.text}`,
      )
      if (!answer.ok) cli.exitWith(EXIT.failed)
    })
}

function addressOf({ url, port }: HealthOptions): URL {
  const settings = installedSettings(process.env)
  const given: NodeJS.ProcessEnv = { ...settings, ...process.env }
  if (port !== undefined) given.TRANCHE_PORT = String(port)
  const address = URL.parse(url ?? serviceUrl((name) => given[name]))
  if (address?.protocol === 'http:' || address?.protocol === 'https:') return address
  throw usage(`${url} is not an http or https address.`)
}

/** The answer of a service, or why there is none, and whether that is good. Nothing secret is sent. */
export async function ask(
  url: URL,
  isWell: (status: number) => boolean,
): Promise<{ ok: boolean; text: string }> {
  const { request } = url.protocol === 'https:' ? await import('node:https') : await import('node:http')
  const options = {
    signal: AbortSignal.timeout(ANSWER_WAIT_MS),
    // Its certificate has its public name, but calls from this machine use another.
    rejectUnauthorized: !isLoopback(url.hostname),
  }
  return new Promise((resolve) => {
    const call = request(url, options, (response) => {
      const status = response.statusCode ?? 0
      resolve({ ok: isWell(status), text: `HTTP ${status}` })
      // The rest of the answer is not needed, and waiting for its end could take forever.
      call.destroy()
    })
    call.on('error', (error: NodeJS.ErrnoException) => {
      const late = options.signal.aborted
      resolve({
        ok: false,
        text: late ? `no answer within ${ANSWER_WAIT_MS / 1000} s` : reasonInWords(error),
      })
    })
    call.end()
  })
}

/** A refusal is an answer too, from a running process that wants a token for more. */
export const isUp = (status: number): boolean => status >= 200 && status < 500

const isReady = (status: number): boolean => status >= 200 && status < 300
