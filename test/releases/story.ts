// A few weeks of a service's life, by its commands and its API alone: the data that a release hands on to the next.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { formatPrice, type Price, price } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { type Chance, chanceOf } from '../simulation/chance.ts'
import { type Shell, succeed, USER } from '../support/service.ts'

/** Of January and February 2026, and three days of March: two months that are over. */
const DAYS = 62
const PASSES_A_DAY = 2
const PASS_EVERY_MS = DAY_MS / PASSES_A_DAY

type Due = Record<
  'execution_id' | 'idempotency_key' | 'amount_usd' | 'partner_plan_id' | 'partner_user_id',
  string
>
// biome-ignore lint/suspicious/noExplicitAny: the story reads a few members of what it gets
type Call = (key: string, method: string, path: string, body?: object, expected?: number) => Promise<any>

type Story = Chance & {
  shell: Shell
  keys: string[]
  /** Runs a command that must succeed, and answers its output. */
  command: (...argv: string[]) => Promise<string>
  /** Calls the API. Throws on an answer that is not expected. */
  call: Call
}

/** Plays the weeks on the shell's database; equal seeds play equal weeks. Resolves with the API keys. */
export async function playStory(shell: Shell, seed: number): Promise<{ keys: string[] }> {
  const story = await begin(shell, seed)
  const price = priceFeed(story)
  let last = '60000.00'
  for (let day = 0; day < DAYS; day++) {
    for (let pass = 0; pass < PASSES_A_DAY; pass++) {
      const seen: Price | undefined = price()
      if (seen !== undefined) last = formatPrice(seen)
      await story.command('tick', ...(seen === undefined ? [] : ['--price', last]))
      for (const key of story.keys) await work(story, key, last)
      shell.advance(PASS_EVERY_MS)
    }
    await happenings(story, day)
  }
  await story.command('tick', '--price', last)
  return { keys: story.keys }
}

async function begin(shell: Shell, seed: number): Promise<Story> {
  const command: Story['command'] = (...argv) => succeed(shell, ...argv)
  const call = callOf(shell)
  const keys: string[] = []
  for (const slug of ['acme', 'bolt']) {
    await command('partner', 'create', slug, '--name', slug.toUpperCase())
    for (const env of ['live', 'test']) keys.push((await command('key', 'create', slug, '--env', env)).trim())
  }
  const terms = ['--rate-bps', '25', '--per-active-user-usd', '0.37', '--from', '2026-02']
  await command('tier', 'set', 'gold', ...terms)
  await command('partner', 'set-tier', 'acme', 'gold', '--from', '2026-02')
  const story = { ...chanceOf(seed), shell, keys, command, call }
  for (const key of keys) await enrol(story, key)
  return story
}

const callOf =
  (shell: Shell): Call =>
  async (key, method, path, body, expected = 200) => {
    const { status, body: answer } = await shell.ask(key, method, path, body)
    if (status !== expected) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`)
    return answer
  }

const PLANS = [
  { partner_plan_id: 'daily', frequency: 'daily', amount_usd: '60.00' },
  { partner_plan_id: 'odd', frequency: 'daily', amount_usd: '17.77' },
  { partner_plan_id: 'weekly', frequency: 'weekly', amount_usd: '333.33' },
  { partner_plan_id: 'two weeks', frequency: 'bi-weekly', amount_usd: '1000.00' },
]

async function enrol({ call }: Story, key: string): Promise<void> {
  for (const user of ['ana', 'Bjørn 1', 'carla']) {
    await call(key, 'POST', 'users', { ...USER, partner_user_id: user, email: `${user.length}@example.com` })
    // A single user has all plans, the others only the longest.
    for (const plan of user === 'ana' ? PLANS : PLANS.slice(2)) {
      const partner_plan_id = `${user} ${plan.partner_plan_id}`
      await call(key, 'POST', 'plans', { ...plan, partner_plan_id, partner_user_id: user })
    }
  }
}

/** A poll, and the partner's report of each instruction: mostly a fill. */
async function work({ call, happens, next }: Story, key: string, price: string): Promise<void> {
  const due: Due[] = await call(key, 'GET', 'executions/due')
  for (const { execution_id, idempotency_key, amount_usd } of due) {
    if (happens(0.05)) continue
    const path = `executions/${execution_id}/confirm`
    const order = `order ${idempotency_key}`
    if (happens(0.06)) {
      const failure = { partner_order_id: order, status: 'failed', failure_reason: 'no funds, "really"' }
      await call(key, 'POST', path, failure)
      continue
    }
    const isPart = happens(0.05)
    const usd = isPart ? (Number(amount_usd) * next()).toFixed(2) : amount_usd
    const fill = {
      ...purchase(order, usd, price),
      ...(isPart && { status: 'partial' }),
      ...(happens(0.5) && { partner_fee: '0.01' }),
    }
    if (Number(fill.usd_amount) > 0 && Number(fill.btc_amount) > 0) {
      await call(key, 'POST', path, fill)
      if (happens(0.1)) await call(key, 'POST', path, fill)
    }
  }
}

const purchase = (order: string, usd: string, price = '60000') => ({
  partner_order_id: order,
  status: 'filled',
  usd_amount: usd,
  btc_amount: (Number(usd) / Number(price)).toFixed(8),
  execution_price: price,
})

/** Rare events of the first partner's live environment, at the end of that day. */
async function happenings({ call, command, keys, shell }: Story, day: number): Promise<void> {
  const key = keys[0] ?? ''
  const plan = (of: object) =>
    call(key, 'POST', 'plans', { ...PLANS[0], partner_user_id: 'ana', partner_plan_id: 'ana daily', ...of })
  switch (day) {
    case 9:
      return void (await plan({ status: 'paused' }))
    case 12:
      return void (await plan({ status: 'active', amount_usd: '75.50' }))
    case 20:
      return lateFill({ call, command, key, shell })
    case 25:
      return void (await call(key, 'PATCH', 'users/carla', { status: 'disabled' }))
    case 33:
      return void (await call(key, 'PATCH', 'users/carla', { status: 'linked' }))
    case 40: {
      const [trade] = (await command('billing', 'export', '--month', '2026-01', '--report', 'trades'))
        .split('\r\n')
        .filter((line) => line.includes('filled'))
      const id = /exec_\w+/.exec(trade ?? '')?.[0] ?? ''
      const amounts = ['--usd', '9.50', '--btc', '0.00015', '--reason', 'fee counted twice']
      return void (await command('trade', 'adjust', id, ...amounts))
    }
    case 50:
      return void (await command('user', 'erase', 'bolt', 'carla', '--env', 'live', '--yes'))
    default:
  }
}

/** A purchase that is reported after its plan was cancelled, and that an operator accepts. */
async function lateFill({
  call,
  command,
  key,
  shell,
}: Pick<Story, 'call' | 'command' | 'shell'> & { key: string }) {
  await command('tick', '--price', '60000')
  const [late]: Due[] = await call(key, 'GET', 'executions/due')
  if (!late) throw new Error('nothing is due on the day of the late fill')
  const { partner_plan_id, partner_user_id } = late
  const plan = PLANS.find((one) => partner_plan_id.endsWith(one.partner_plan_id))
  await call(key, 'POST', 'plans', { ...plan, partner_plan_id, partner_user_id, status: 'cancelled' })
  shell.advance(HOUR_MS + MINUTE_MS)
  await call(key, 'POST', `executions/${late.execution_id}/confirm`, purchase('late', late.amount_usd), 409)
  await command('execution', 'accept-late', late.execution_id)
}

/** A walk in steps of up to half a percent, with outages of the feed. */
function priceFeed({ next, happens, between }: Chance): () => Price | undefined {
  let dollars = 60_000
  let silent = 0
  return () => {
    dollars *= Math.exp((next() - 0.5) / 100)
    if (silent > 0) silent -= 1
    else if (happens(0.02)) silent = between(1, 20)
    return silent > 0 ? undefined : price(dollars.toFixed(2))
  }
}

/** The settings of an issuer who numbers its invoices. */
const SETTINGS = {
  issuer: {
    name: 'Tranche Services GmbH',
    address: ['Lindenstraße 5', '10969 Berlin'],
    country: 'DE',
    tax_id: 'DE 123 456 789',
    due_days: 14,
    numbers: { prefix: 'R-2026-' },
  },
  partners: {
    acme: { name: 'Acme', address: ['London'], country: 'GB', tax: { exempt: 'Not subject to German VAT.' } },
    bolt: {
      name: 'Bolt',
      address: ['Amsterdam'],
      country: 'NL',
      tax_id: 'NL 001234567B01',
      tax: 'reverse-charge',
    },
  },
}

/**
 * Features that 0.1.0 lacked: invoices and a credit note, the last minimum of a partner that left, a recorded purchase,
 * every kind of late fill, a failing webhook, a sandbox that is ahead of its time.
 */
export async function playSequel(shell: Shell, keys: readonly string[]): Promise<void> {
  const command = (...argv: string[]) => succeed(shell, ...argv)
  const [live = ''] = keys
  const settings = join(shell.folder, 'billing.json')
  writeFileSync(settings, JSON.stringify(SETTINGS))
  for (const month of ['2026-01', '2026-02'])
    await command('billing', 'issue', '--month', month, '--settings', settings)
  const why = ['--reason', 'a promised discount', '--settings', settings]
  await command('billing', 'credit', 'R-2026-0001', '--usd', '0.25', ...why)

  await command('partner', 'create', 'left', '--name', 'Left')
  await command('partner', 'set-tier', 'left', 'gold')
  await command('partner', 'disable', 'left', '--last-minimum', '2026-04')
  await command('partner', 'hold', 'bolt')

  const order = ['--order', 'lost', '--usd', '4.50', '--btc', '0.000075', '--fee', '0.02']
  const plan = ['--partner', 'acme', '--plan', 'ana two weeks']
  await command('trade', 'record', ...plan, ...order, '--at', '24h', '--reason', 'lost with the disk')

  await lateFills(shell, live)
  await callOf(shell)(live, 'POST', 'webhooks', { url: 'https://127.0.0.1:9/hook' })
  await command('sandbox', 'reset', 'bolt', '--yes')
  await command('sandbox', 'advance', 'acme', '2d', '--price', '60000')
  shell.advance(HOUR_MS)
  await command('tick', '--price', '58000')
}

/** Refused reports that are stored: two that are accepted, one that is dismissed, and two that wait. */
async function lateFills(shell: Shell, key: string): Promise<void> {
  const refused = async (id: string, order: string, usd: string): Promise<string> => {
    const { status, body } = await shell.ask(key, 'POST', `executions/${id}/confirm`, purchase(order, usd))
    if (status < 400) throw new Error(`${order} was taken: ${JSON.stringify(body)}`)
    return id
  }
  const above = ({ amount_usd }: Due) => (Number(amount_usd) + 1).toFixed(2)
  for (const [name, end] of [
    ['above', ['accept-late']],
    ['twice', ['dismiss-late']],
    ['waits', []],
  ] as const) {
    const due = await untilOne(shell, async () => (await shell.ask(key, 'GET', 'executions/due')).body)
    const id = await refused(due.execution_id, name, above(due))
    for (const verb of end)
      await succeed(shell, 'execution', verb, id, '--reason', `the statement of ${name}`)
  }
  // As in a restored ledger, which does not know its later executions.
  const unknown = await refused('exec_019b8b9a2c007a1b9c2d3e4f5a6b7c8d', 'unknown', '7.00')
  const plan = ['--plan', 'ana weekly', '--reason', 'on the statement']
  await succeed(shell, 'execution', 'accept-late', unknown, ...plan)
  const asked = ['execution', 'list', '--partner', 'acme', '--env', 'live', '--status', 'pending', '--json']
  const pending = await untilOne(shell, async () => JSON.parse(await succeed(shell, ...asked)))
  await refused(pending.execution_id, 'early', pending.amount_usd)
}

/** Lets time pass until there is an execution. */
async function untilOne(shell: Shell, look: () => Promise<Due[]>): Promise<Due> {
  for (let tries = 0; tries < 12; tries++) {
    const [first] = await look()
    if (first) return first
    shell.advance(PASS_EVERY_MS / 2)
    await succeed(shell, 'tick', '--price', '57000')
  }
  throw new Error('nothing fired in three days')
}
