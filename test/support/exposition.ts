// A parser of Prometheus' text format that is stricter than Prometheus: it refuses texts that promtool complains of.

import assert from 'node:assert/strict'

export type Samples = {
  /** The value of a series written as `name{label="value"}`, labels in alphabetical order. */
  value: (series: string) => number
  has: (series: string) => boolean
  types: Map<string, string>
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$/

export function readExposition(text: string): Samples {
  assert.ok(text.endsWith('\n'))
  const types = new Map<string, string>()
  const helps = new Set<string>()
  const values = new Map<string, number>()
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? []
    if (kind === 'HELP') helps.add(name)
    else if (kind === 'TYPE') {
      assert.ok(!types.has(name), `${name} is declared once`)
      types.set(name, rest)
    } else readSample(line, types, values)
  }
  for (const [name, type] of types) {
    assert.ok(helps.has(name), `${name} has a help text`)
    assert.equal(name.endsWith('_total'), type === 'counter', `${name} is a ${type}`)
    if (type === 'histogram') checkHistogram(name, values)
  }
  return {
    types,
    has: (series) => values.has(series),
    value(series) {
      const found = values.get(series)
      assert.notEqual(found, undefined, `${series} is there`)
      return found as number
    },
  }
}

function readSample(line: string, types: Map<string, string>, values: Map<string, number>): void {
  const [, name = '', labels = '', value = ''] = SAMPLE.exec(line) ?? []
  assert.notEqual(name, '', `a sample: ${line}`)
  const family = types.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '')
  assert.ok(types.has(family), `${name} is declared before its samples`)
  const sorted = [...labels.matchAll(/\w+="(?:[^"\\]|\\.)*"/g)].map(([label]) => label).sort()
  const series = sorted.length === 0 ? name : `${name}{${sorted.join(',')}}`
  assert.ok(!values.has(series), `${series} stands there once`)
  const number = value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value)
  assert.ok(/^nan$/i.test(value) || !Number.isNaN(number), `${series} has a number, not ${value}`)
  values.set(series, number)
}

/** Buckets only grow, and the last one counts everything. */
function checkHistogram(name: string, values: Map<string, number>): void {
  const before = new Map<string, number>()
  for (const [series, value] of values) {
    if (!series.startsWith(`${name}_bucket`)) continue
    const others = series
      .replace(/,?le="[^"]*"/, '')
      .replace('{,', '{')
      .replace('{}', '')
    assert.ok(value >= (before.get(others) ?? 0), series)
    before.set(others, value)
    if (series.includes('le="+Inf"'))
      assert.equal(value, values.get(others.replace('_bucket', '_count')), series)
  }
}
