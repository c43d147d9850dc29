// The README's five-minute path, run as a reader would paste it.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
const README = readFileSync(join(ROOT, 'README.md'), 'utf8')

/** The shell blocks of one section, in order. */
function shellOf(section: string): string {
  const body = README.split(/^## /m).find((part) => part.startsWith(section))
  assert.ok(body, `README has a section "${section}"`)
  return [...body.matchAll(/```sh\n([\s\S]*?)```/g)].map((block) => block[1]).join('\n')
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  assert.ok(address && typeof address === 'object')
  return address.port
}

test('the five-minute path works by copy and paste', async () => {
  const port = String(await freePort())
  const script = shellOf('Your first partner').replaceAll('8080', port)
  const env = { ...process.env, TRANCHE_PORT: port }
  const bash = spawn('bash', ['-euo', 'pipefail', '-m'], { cwd: ROOT, env, stdio: ['pipe', 'pipe', 'pipe'] })
  bash.stdin.end(`${script}\nwait`)
  const [out, err, code] = await Promise.all([
    text(bash.stdout),
    text(bash.stderr),
    new Promise((resolve) => bash.once('close', resolve)),
  ])
  assert.equal(code, 0, err)
  assert.match(out, /"partner_name":"Acme Exchange"/)
  assert.match(out, /"executions_created":1/)
  assert.match(out, /"idempotency_key":"plan-1:/)
  assert.match(out, /"ok":true,.*"partner_order_id":"order-1"\}\n/)
  assert.match(out, /"replayed":true/)
  assert.match(out, /SPENT +RELEASED/)
  assert.match(out, /trigger +slot_start/)
  assert.match(out, /plans +1 active/)
  assert.match(out, /^ok$/m)
  assert.doesNotMatch(out, /Internal Server Error|"detail"/)
})

test('the README names every command there is', async () => {
  const help = spawn(join(ROOT, 'bin/tranche'), ['--help'], { stdio: ['ignore', 'pipe', 'ignore'] })
  const commands = [...(await text(help.stdout)).matchAll(/^ {2}([a-z][a-z-]*)[ |]/gm)].map(
    ([, name]) => name,
  )
  const table = README.slice(README.indexOf('## The commands'))
  const missing = commands.filter((name) => name !== 'help' && !table.includes(`\`${name}`))
  assert.deepEqual(missing, [])
  assert.ok(commands.length > 10, `help lists the commands (${commands})`)
})
