// A few weeks of a service's life, through its commands and its API alone: what a release has to hand on to the next.

import { formatPrice, type Price, price } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { type Chance, chanceOf } from '../simulation/chance.ts'
import { type Shell, succeed } from '../support/service.ts'

/** Of January and February 2026, and three days of March: two months that are over. */
const DAYS = 62
const PASSES_A_DAY = 2
const PASS_EVERY_MS = DAY_MS / PASSES_A_DAY

type Due = Record<
  'execution_id' | 'idempotency_key' | 'amount_usd' | 'partner_plan_id' | 'partner_user_id',
  string
>
type Story = Chance & {
  shell: Shell
  keys: string[]
  /** Runs a command that must succeed, and answers what it printed. */
  command: (...argv: string[]) => Promise<string>
  /** Calls the API. Throws on an answer that is not in `expected`. */
  call: (key: string, method: string, path: string, body?: object, ...expected: number[]) => Promise<string>
}

/** Plays the weeks on the shell's database. The same seed plays the same ones. Resolves with the API keys. */
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
  const call: Story['call'] = async (key, method, path, body, ...expected) => {
    const { status, text } = await shell.call(method, `/partner/v1${path}`, key, body && JSON.stringify(body))
    if (![200, ...expected].includes(status)) throw new Error(`${method} ${path}: ${status} ${text}`)
    return text
  }
  const keys: string[] = []
  for (const slug of ['acme', 'bolt']) {
    await command('partner', 'create', slug, '--name', slug.toUpperCase())
    for (const env of ['live', 'test']) keys.push((await command('key', 'create', slug, '--env', env)).trim())
  }
  await command(
    'tier',
    'set',
    'gold',
    '--rate-bps',
    '25',
    '--per-active-user-usd',
    '0.37',
    '--from',
    '2026-02',
  )
  await command('partner', 'set-tier', 'acme', 'gold', '--from', '2026-02')
  const story = { ...chanceOf(seed), shell, keys, command, call }
  for (const key of keys) await enrol(story, key)
  return story
}

const PLANS = [
  { partner_plan_id: 'daily', frequency: 'daily', amount_usd: '60.00' },
  { partner_plan_id: 'odd', frequency: 'daily', amount_usd: '17.77' },
  { partner_plan_id: 'weekly', frequency: 'weekly', amount_usd: '333.33' },
  { partner_plan_id: 'two weeks', frequency: 'bi-weekly', amount_usd: '1000.00' },
]

async function enrol({ call }: Story, key: string): Promise<void> {
  for (const user of ['ana', 'Bjørn 1', 'carla']) {
    const consent = {
      consent_accepted: true,
      consent_version: 'v1',
      consent_timestamp: '2026-01-01T00:00:00Z',
    }
    await call(key, 'POST', '/users', {
      partner_user_id: user,
      email: `${user.length}@example.com`,
      ...consent,
    })
    // One has them all, the others only the longest.
    for (const plan of user === 'ana' ? PLANS : PLANS.slice(2)) {
      const partner_plan_id = `${user} ${plan.partner_plan_id}`
      await call(key, 'POST', '/plans', { ...plan, partner_plan_id, partner_user_id: user })
    }
  }
}

/** A poll, and what the partner makes of each instruction: mostly a fill. */
async function work({ call, happens, next }: Story, key: string, price: string): Promise<void> {
  const due = JSON.parse(await call(key, 'GET', '/executions/due')) as Due[]
  for (const { execution_id, idempotency_key, amount_usd } of due) {
    if (happens(0.05)) continue
    const path = `/executions/${execution_id}/confirm`
    const partner_order_id = `order ${idempotency_key}`
    if (happens(0.06)) {
      await call(key, 'POST', path, {
        partner_order_id,
        status: 'failed',
        failure_reason: 'no funds, "really"',
      })
      continue
    }
    const isPart = happens(0.05)
    const usd = isPart ? (Number(amount_usd) * next()).toFixed(2) : amount_usd
    const fill = {
      partner_order_id,
      status: isPart ? 'partial' : 'filled',
      usd_amount: usd,
      btc_amount: (Number(usd) / Number(price)).toFixed(8),
      execution_price: price,
      ...(happens(0.5) && { partner_fee: '0.01' }),
    }
    if (Number(fill.usd_amount) > 0 && Number(fill.btc_amount) > 0) {
      await call(key, 'POST', path, fill)
      if (happens(0.1)) await call(key, 'POST', path, fill)
    }
  }
}

/** What does not happen every day: to the first partner's live environment, at the end of that day. */
async function happenings({ call, command, keys, shell }: Story, day: number): Promise<void> {
  const key = keys[0] ?? ''
  const plan = (of: object) =>
    call(key, 'POST', '/plans', { ...PLANS[0], partner_user_id: 'ana', partner_plan_id: 'ana daily', ...of })
  switch (day) {
    case 9:
      return void (await plan({ status: 'paused' }))
    case 12:
      return void (await plan({ status: 'active', amount_usd: '75.50' }))
    case 20:
      return lateFill({ call, command, key, shell })
    case 25:
      return void (await call(key, 'PATCH', '/users/carla', { status: 'disabled' }))
    case 33:
      return void (await call(key, 'PATCH', '/users/carla', { status: 'linked' }))
    case 40: {
      const [trade] = (await command('billing', 'export', '--month', '2026-01', '--report', 'trades'))
        .split('\r\n')
        .filter((line) => line.includes('filled'))
      const id = /exec_\w+/.exec(trade ?? '')?.[0] ?? ''
      return void (await command(
        'trade',
        'adjust',
        id,
        '--usd',
        '9.50',
        '--btc',
        '0.00015',
        '--reason',
        'fee counted twice',
      ))
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
  const [late] = JSON.parse(await call(key, 'GET', '/executions/due')) as Due[]
  if (!late) throw new Error('nothing is due on the day of the late fill')
  const { partner_plan_id, partner_user_id } = late
  const plan = PLANS.find((one) => partner_plan_id.endsWith(one.partner_plan_id))
  await call(key, 'POST', '/plans', { ...plan, partner_plan_id, partner_user_id, status: 'cancelled' })
  shell.advance(HOUR_MS + MINUTE_MS)
  const fill = {
    partner_order_id: 'late',
    status: 'filled',
    usd_amount: late.amount_usd,
    btc_amount: '0.0001',
    execution_price: '60000',
  }
  await call(key, 'POST', `/executions/${late.execution_id}/confirm`, fill, 409)
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
