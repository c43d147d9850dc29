// The three guarantees of the timing engine, checked over random prices, outages and cadences.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { floorToCents, type Price, priceAsNumber, type Usd } from '../../src/core/money.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/core/time.ts'
import { ANY_PRICE, FREQUENCIES, type Frequency, failsafeLead } from '../../src/core/window.ts'
import { layout } from '../../src/engine/slot-reserve.ts'
import { dollars, drive, type Fired, LEAD_MS, type PassAt, scheduleOf, total, windowDays } from './passes.ts'

/** The amounts cover every kind of layout: full, wide slots, one unit a slot, merged slots, a single tranche. */
const AMOUNTS = ['1.00', '7.50', '12.34', '29.99', '60.00', '100.01', '333.33', '999999.99']

type Weather = {
  everyMs: number
  jitter: number[]
  outages: { at: number; ms: number }[]
  prices: number[]
  live: boolean[]
}

const weather: fc.Arbitrary<Weather> = fc.record({
  everyMs: fc.integer({ min: MINUTE_MS, max: 6 * HOUR_MS }),
  jitter: fc.array(fc.double({ min: 0, max: 0.3, noNaN: true }), { minLength: 1, maxLength: 20 }),
  outages: fc.array(
    fc.record({
      at: fc.double({ min: -0.5, max: 1, noNaN: true }),
      ms: fc.integer({ min: 0, max: 2 * DAY_MS }),
    }),
    { maxLength: 3 },
  ),
  prices: fc.array(fc.double({ min: -0.1, max: 0.1, noNaN: true }), { minLength: 1, maxLength: 60 }),
  live: fc.array(fc.boolean(), { minLength: 1, maxLength: 12 }),
})

/** Passes through a window and some time before it, each with the lead its tick gaps give. */
function passesThrough(lengthMs: number, { everyMs, jitter, outages, prices, live }: Weather): PassAt[] {
  const passes: PassAt[] = []
  const gaps: number[] = []
  // A cron of a minute would make 20,000 passes in a fortnight: the property needs no more than this many.
  const every = Math.max(everyMs, lengthMs / 400)
  let walk = Math.log(60_000)
  for (let ms = -10 * every, i = 0; ms < lengthMs; i++) {
    const before = ms
    ms += every * (1 + (jitter[i % jitter.length] ?? 0))
    for (const outage of outages) {
      const from = outage.at * lengthMs
      if (before <= from && from < ms) ms += outage.ms
    }
    ms = Math.floor(ms)
    gaps.push(ms - Math.floor(before))
    walk += prices[i % prices.length] ?? 0
    if (0 <= ms && ms < lengthMs) {
      const price = live[Math.floor(i / 7) % live.length] ? dollars(Math.exp(walk % 14)) : null
      passes.push({ ms, price, leadMs: failsafeLead(gaps) })
    }
  }
  return passes
}

const planned = fc.record({
  frequency: fc.constantFrom(...FREQUENCIES),
  amount: fc.constantFrom(...AMOUNTS),
  minTranche: fc.constantFrom('1.00', '5.00', '50.00'),
})
const schedules = (plan: { frequency: Frequency; amount: string; minTranche: string }) =>
  scheduleOf(plan.frequency, plan.amount, plan.minTranche)

const lengthOf = (schedule: { windowStart: number; windowEnd: number }) =>
  schedule.windowEnd - schedule.windowStart
const inSpan = (pass: PassAt, lengthMs: number) => pass.ms >= lengthMs - (pass.leadMs ?? LEAD_MS)

test('1: whenever a pass runs in the failsafe span, the whole budget has been offered in its window', () => {
  let withSpan = 0
  fc.assert(
    fc.property(planned, weather, (plan, sky) => {
      const schedule = schedules(plan)
      const passes = passesThrough(lengthOf(schedule), sky)
      const { fired } = drive(schedule, passes)
      assert.ok(total(fired) <= schedule.budget)
      assert.ok(fired.every((one) => one.amount >= schedule.floor))
      if (!passes.some((pass) => inSpan(pass, lengthOf(schedule)))) return
      withSpan += 1
      assert.equal(total(fired), schedule.budget)
    }),
    { numRuns: 300 },
  )
  assert.ok(withSpan > 100, 'the property must not hold for want of cases')
})

test('1: money that comes back by the failsafe span is offered again, in a bounded number of tranches', () => {
  const share = fc.array(fc.constantFrom(0n, 0n, 1n, 37n, 99n, 100n), { minLength: 1, maxLength: 12 })
  fc.assert(
    fc.property(planned, weather, share, (plan, sky, shares) => {
      const schedule = schedules(plan)
      const { slots, unitsPerSlot } = layout(schedule)
      let [n, extras, lastExtra] = [0, 0, Number.NEGATIVE_INFINITY]
      const refund = (one: Fired) => ((one.amount * (shares[n++ % shares.length] ?? 0n)) / 100n) as Usd
      let state = schedule
      for (const pass of passesThrough(lengthOf(schedule), sky)) {
        const fireable = floorToCents(state.fireable)
        const left = slots * unitsPerSlot - (state.layout?.unitsFired ?? 0)
        const run = drive(state, [pass], { refund })
        const [one] = run.fired
        state = run.schedule
        if (one && one.units === 0) {
          assert.ok(pass.ms - lastExtra >= 5 * MINUTE_MS, 'extras keep five minutes apart')
          ;[extras, lastExtra] = [extras + 1, pass.ms]
        }
        if (!inSpan(pass, lengthOf(schedule)) || fireable < schedule.floor) continue
        if (left > 0) assert.equal(one?.amount, fireable, 'the failsafe offers everything')
        else if (!one) assert.ok(extras === 3 || pass.ms - lastExtra < 5 * MINUTE_MS)
        else assert.equal(one.amount, fireable, 'an extra offers everything')
      }
      assert.ok(extras <= 3)
      assert.ok(n <= slots * unitsPerSlot + 3)
    }),
    { numRuns: 200 },
  )
})

test('1: every steady cadence from a minute to six hours has a pass in the span, one outage or not', () => {
  const cadence = fc.integer({ min: MINUTE_MS, max: 6 * HOUR_MS })
  const outage = fc.record({
    at: fc.double({ min: 0, max: 0.4, noNaN: true }),
    ms: fc.integer({ min: 0, max: 6 * HOUR_MS }),
  })
  fc.assert(
    fc.property(planned, cadence, fc.integer(), fc.option(outage), (plan, everyMs, phase, gap) => {
      const schedule = schedules(plan)
      const lengthMs = lengthOf(schedule)
      const passes: PassAt[] = []
      const gaps: number[] = []
      // Only the end of a long window and the gaps before it affect the span.
      const from = Math.max(0, lengthMs - 2 * DAY_MS)
      // After an outage that may last until the window is over, there may be no pass left for the span.
      fc.pre(gap === null || from + gap.at * DAY_MS + 2 * everyMs + gap.ms <= lengthMs)
      let missing = gap?.ms ?? 0
      for (let ms = from - 9 * everyMs + (Math.abs(phase) % everyMs); ms < lengthMs; ) {
        if (ms >= 0) passes.push({ ms, price: null, leadMs: failsafeLead(gaps) })
        const skipped = gap && ms >= from + gap.at * DAY_MS ? missing : 0
        if (skipped > 0) missing = 0
        gaps.push(everyMs + skipped)
        ms += everyMs + skipped
      }
      assert.equal(total(drive(schedule, passes).fired), schedule.budget)
    }),
    { numRuns: 150 },
  )
})

test('the scheduler misses nothing by looking at a plan only when a due condition holds', () => {
  fc.assert(
    fc.property(planned, weather, (plan, sky) => {
      const passes = passesThrough(lengthOf(schedules(plan)), sky)
      const [due, eager] = [drive(schedules(plan), passes), drive(schedules(plan), passes, { eagerly: true })]
      assert.deepEqual(due.fired, eager.fired)
      const slotsAndLives = 2 * layout(schedules(plan)).slots
      assert.ok(
        due.touched <=
          due.fired.length +
            slotsAndLives +
            passes.filter((p) => inSpan(p, lengthOf(schedules(plan)))).length,
      )
    }),
    { numRuns: 200 },
  )
})

// The second and third guarantee of the timing engine, checked over random prices: its regret is bounded.
//
// The competitive bound, derived for the rule as built. Let a slot have k equal units, a first price ref and prices
// within [L, M] = [ref e^-hw, ref e^hw], M being also a bound for the pass at or after its end. Write
// p_m = ref exp(hw (1 - 2 (1 + 1/k)^(m - k))) for m = 0..k; then p_0 >= ref and p_k = L. Unit m fires at the first
// price at or under p_m after unit m - 1 has fired, one a pass, so unit 0 always fires at ref.
//   Say that j units fire within the slot, at q_0 = ref, q_1 <= p_1, ..., and k - j at its end, each for at most M.
// Every other price of the slot was seen while some unit m <= j waited, so it is above p_m >= p_j (for j = k it is
// at least L = p_k). Hence the k lowest prices add up to at least sum(min(q_i, p_j)) + (k - j) p_j, and
//     cost / best <= (sum q_i + (k - j) M) / (sum min(q_i, p_j) + (k - j) p_j).
//   A q_i under p_j adds the same to both sums, so the ratio is largest with it at L; a q_i above p_j adds to the cost
// only, so it is largest at p_i. Of the j - 1 free ones let s lie at L, the s with the lowest p_i:
//     r(k, hw) = max over 1 <= j <= k and 0 <= s < j of
//       (ref + sum_{1 <= i < j - s} p_i + s L + (k - j) M) / (s L + (k - s) p_j).
// For k = 1 this is e^hw. For k = 2 it is (e^(hw/3) + e^(4 hw/3)) / 2, from j = 1: the second unit waits in vain and is
// bought at M, while the market offered two prices just above p_1. Near hw = 0 that is 1 + 5/6 hw, where the theory has
// 1 + 2 hw / (1 + 1/k)^k = 1 + 8/9 hw: it allows the first unit to be bought at p_0, and here it is bought at ref.
//   The mean of the prices paid for equal amounts of dollars is above the dollars paid for one coin (a harmonic mean),
// so the bound on the one is a bound on the other.

/** Room for the last digit of a price and the 2^-40 of a ratio. */
const ROUNDING = 1 + 1e-9

/** A slot of every width and number of units that a layout can have. */
const SLOTS: [frequency: Frequency, amount: string][] = [
  ['daily', '60.00'],
  ['daily', '20.00'],
  ['daily', '5.00'],
  ['weekly', '280.00'],
  ['weekly', '70.00'],
  ['weekly', '12.00'],
  ['bi-weekly', '5.00'],
]

type Slot = { k: number; hours: number; endMs: number; schedule: ReturnType<typeof scheduleOf> }

function firstSlot([frequency, amount]: [Frequency, string]): Slot {
  const schedule = scheduleOf(frequency, amount)
  const { slots, unitsPerSlot: k } = layout(schedule)
  const hours = (windowDays(schedule) * 24) / slots
  // The only slot of a window ends where the failsafe begins.
  const endMs = slots === 1 ? schedule.windowEnd - schedule.windowStart - LEAD_MS : hours * HOUR_MS
  return { k, hours, endMs, schedule }
}

/** The cost of the slot's k units, and its prices in rising order. */
function trade({ k, endMs, schedule }: Slot, prices: readonly Price[], end: Price, sigma: number) {
  const step = endMs / prices.length
  const passes = prices.map((price, i) => ({ ms: Math.floor(i * step), price, sigma }))
  const { fired } = drive(schedule, [...passes, { ms: endMs, price: end, sigma }])
  const paid = fired
    .flatMap((one) => Array<number>(one.units).fill(priceAsNumber(one.price ?? ANY_PRICE)))
    .slice(0, k)
  assert.equal(paid.length, k)
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const lowest = prices
    .map(priceAsNumber)
    .sort((a, b) => a - b)
    .slice(0, k)
  return { cost: mean(paid), perCoin: 1 / mean(paid.map((p) => 1 / p)), best: mean(lowest) }
}

const halfWidthOf = (slot: Slot, sigma: number) => 0.5 * sigma * Math.sqrt(slot.hours)
const threshold = (k: number, hw: number, m: number) => Math.exp(hw * (1 - 2 * (1 + 1 / k) ** (m - k)))

/** r(k, hw) as derived above. */
function competitiveRatio(k: number, hw: number): number {
  const [low, high] = [Math.exp(-hw), Math.exp(hw)]
  let worst = 1
  for (let j = 1; j <= k; j++) {
    for (let s = 0; s < j; s++) {
      let cost = 1 + s * low + (k - j) * high
      for (let i = 1; i < j - s; i++) cost += threshold(k, hw, i)
      worst = Math.max(worst, cost / (s * low + (k - s) * threshold(k, hw, j)))
    }
  }
  return worst
}

const anySlot = fc.constantFrom(...SLOTS).map(firstSlot)
const anySigma = fc.double({ min: 0.001, max: 0.03, noNaN: true })
const within = fc.double({ min: -1, max: 1, noNaN: true })

test('2: while prices stay in the band, a slot costs at most r times the mean of its k lowest prices', () => {
  const path = fc.array(fc.oneof(within, fc.constantFrom(-1, -1 / 3, 0, 1)), { minLength: 2, maxLength: 40 })
  fc.assert(
    fc.property(anySlot, anySigma, path, within, (slot, sigma, steps, last) => {
      const hw = halfWidthOf(slot, sigma)
      const priceAt = (x: number) => dollars(60_000 * Math.exp(hw * x))
      const { cost, perCoin, best } = trade(
        slot,
        [dollars(60_000), ...steps.map(priceAt)],
        priceAt(last),
        sigma,
      )
      assert.ok(cost <= competitiveRatio(slot.k, hw) * best * ROUNDING, `${cost} for ${best}`)
      assert.ok(perCoin <= cost * ROUNDING)
    }),
    { numRuns: 2_000 },
  )
})

test('2: r has its closed form, and a market that knows the rule comes up to it', () => {
  for (const slot of SLOTS.map(firstSlot)) {
    for (const sigma of [0.001, 0.005, 0.03]) {
      const hw = halfWidthOf(slot, sigma)
      const r = slot.k === 1 ? Math.exp(hw) : (Math.exp(hw / 3) + Math.exp((4 * hw) / 3)) / 2
      assert.ok(Math.abs(competitiveRatio(slot.k, hw) / r - 1) < 1e-12)
      // Just above the next reservation price for the whole slot, then the top of the band.
      const above = dollars(60_000 * threshold(slot.k, hw, 1) * (1 + 1e-8))
      const { cost, best } = trade(
        slot,
        [dollars(60_000), above, above, above],
        dollars(60_000 * Math.exp(hw)),
        sigma,
      )
      const reached = slot.k === 1 ? Math.exp(hw) : r
      assert.ok(Math.abs(cost / best / reached - 1) < 1e-7, `${cost / best}, not ${reached}`)
    }
  }
})

test('3: with two units a slot costs at most (ref + max(ref e^(-hw/3), price at its end)) / 2, whatever prices do', () => {
  const twoUnits = fc.constantFrom(...SLOTS.map(firstSlot).filter(({ k }) => k === 2))
  const anyPrice = fc.oneof(
    fc.double({ min: 0.01, max: 1e7, noNaN: true }),
    fc.double({ min: 0.9, max: 1.1, noNaN: true }).map((f) => 60_000 * f),
  )
  fc.assert(
    fc.property(
      twoUnits,
      anySigma,
      fc.array(anyPrice, { minLength: 2, maxLength: 40 }),
      anyPrice,
      (slot, sigma, path, end) => {
        const prices = path.map(dollars)
        const { cost } = trade(slot, prices, dollars(end), sigma)
        const ref = priceAsNumber(prices[0] ?? ANY_PRICE)
        const bound = (ref + Math.max(ref * Math.exp(-halfWidthOf(slot, sigma) / 3), end)) / 2
        assert.ok(cost <= bound * ROUNDING + 1e-8, `${cost}, above ${bound}`)
      },
    ),
    { numRuns: 2_000 },
  )
})
